#include "src/planner/explain.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/base/env.h"
#include "src/planner/size_class.h"

namespace tutti::planner {
namespace {

// Microseconds with two decimals, whatever the locale.
std::string us(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, 2).ptr;
  return {text, end};
}

std::string padded(std::string text, std::size_t width, bool right = true) {
  if (text.size() >= width) return text;
  return right ? std::string(width - text.size(), ' ') + text : text + std::string(width - text.size(), ' ');
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + "%"; }

std::string number_of(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string heading(const Planner& planner, const Question& question) {
  const World& world = planner.world();
  const std::size_t bytes = question.count * size_of(question.type);
  const int hosts =
      world.host_of_rank.empty() ? 1 : 1 + *std::max_element(world.host_of_rank.begin(), world.host_of_rank.end());
  std::string text(name_of(question.collective));
  text += " of " + base::format_bytes(bytes) + " (" + std::to_string(question.count) + " x " +
          std::string(name_of(question.type)) + ", " + std::string(name_of(question.op)) + ") on " +
          number_of(world.ranks, "rank") + ", " + number_of(hosts, "host");
  if (world.ranks_per_core() > 1) text += ", " + us(world.ranks_per_core()) + " ranks per core";
  const int size_class = class_of(bytes);
  return text + "\nsize class: " + (size_class == 0 ? "0" : base::format_bytes(class_border(size_class - 1) + 1)) +
         " to " + base::format_bytes(class_border(size_class)) + "; predictions are for its largest size\n";
}

std::string basis_of(const Candidate& candidate) {
  switch (candidate.basis) {
    case Basis::measured: return "measured";
    case Basis::scaled: return "measured on " + std::to_string(candidate.measured_ranks) + " ranks, scaled";
    case Basis::model: break;
  }
  return "built-in costs";
}

// Which profile speaks here, or why none does.
std::string profile_line(const World& world) {
  const Profile& profile = world.profile;
  if (profile.tables.empty()) return "profile:   none; `tutti tune` measures one\n";
  std::string text = "profile:   " + (profile.file.empty() ? "of rank 0" : profile.file) + ", measured on " +
                     in_words(profile.machine) + ", " +
                     (profile.memory == "threads" ? "ranks as threads" : "ordinary memory") + "\n";
  if (world.ranks_of_fullest_host() != world.ranks) text += "           not used: it speaks of one host\n";
  return text;
}

std::string table(const std::vector<Candidate>& candidates, const std::string& chosen) {
  std::string text = "\n  " + padded("algorithm", 18, false) + padded("predicted us", 12) + padded("latency", 11) +
                     padded("transfer", 12) + padded("reduction", 12) + padded("lanes", 7) + padded("rounds", 8) +
                     padded("slots", 14) + "  source\n";
  for (const Candidate& c : candidates)
    text += (c.algorithm == chosen ? "* " : "  ") + padded(c.algorithm, 18, false) + padded(us(c.predicted_us), 12) +
            padded(us(c.cost.latency_us), 11) + padded(us(c.cost.transfer_us), 12) +
            padded(us(c.cost.reduction_us), 12) + padded(std::to_string(c.lanes), 7) +
            padded(std::to_string(c.rounds), 8) +
            padded(std::to_string(c.slots) + " x " + base::format_bytes(c.slot_bytes), 14) + "  " + basis_of(c) + "\n";
  return text;
}

// Which of the three costs is the largest.
std::string dominant(const Cost& cost) {
  const std::pair<double, const char*> parts[] = {{cost.latency_us, "latency (messages one after another)"},
                                                  {cost.transfer_us, "moving the bytes"},
                                                  {cost.reduction_us, "adding the bytes"}};
  const auto& largest = *std::max_element(std::begin(parts), std::end(parts));
  return std::string(largest.second) + " is " + percent(cost.total() > 0 ? largest.first / cost.total() : 0) + " of it";
}

}  // namespace

std::string explain(Planner& planner, const Question& question) {
  const std::vector<Candidate> candidates =
      planner.candidates(question.collective, question.type, question.op, question.root, question.count);
  const Plan& plan = planner.plan(question.collective, question.type, question.op, question.root, question.count);
  std::string text = heading(planner, question) + table(candidates, plan.schedule->name) + "\n";
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& c) { return c.algorithm == plan.schedule->name; });
  text += "chosen:    " + plan.schedule->name + ", " + us(plan.predicted_us) + " us; " + dominant(chosen->cost) + "\n";
  if (!plan.runner_up.empty()) {
    const double ratio = plan.predicted_us > 0 ? plan.runner_up_us / plan.predicted_us : 1;
    text += "runner-up: " + plan.runner_up + ", " + us(plan.runner_up_us) + " us, " +
            (ratio >= 1 ? percent(ratio - 1) + " slower" : percent(1 - ratio) + " faster, but not allowed") + "\n";
  }
  if (!planner.world().forced_algorithm.empty()) text += "forced:    '" + planner.world().forced_algorithm + "'\n";
  return text + profile_line(planner.world());
}

}  // namespace tutti::planner

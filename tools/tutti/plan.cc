// tutti plan: shows what an algorithm does, as text or as a picture.
#include <fstream>
#include <iostream>
#include <memory>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/planner/planner.h"
#include "src/schedule/render_svg.h"
#include "src/schedule/render_text.h"
#include "src/schedule/timeline.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/schedule_flags.h"

namespace tutti::tools {
namespace {

struct PlanFlags : ScheduleFlags {
  std::string svg;
  bool text = false;
};

// How a call of --size bytes would be cut.
void print_slots(const PlanFlags& flags, const std::vector<schedule::Schedule>& schedules) {
  planner::World world;
  world.ranks = flags.rank_count();
  planner::Planner planner(world);
  const auto candidates =
      planner.candidates(flags.the_collective(), flags.the_type(), ReduceOp::sum, flags.the_root(), flags.count());
  for (const schedule::Schedule& schedule : schedules)
    for (const planner::Candidate& candidate : candidates)
      if (candidate.algorithm == schedule.name)
        std::cout << schedule::title_of(schedule) << ": "
                  << base::format_bytes(flags.count() * size_of(flags.the_type())) << " go through " << candidate.slots
                  << " slots of " << base::format_bytes(candidate.slot_bytes)
                  << " per port, in rounds: " << candidate.rounds << "\n";
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) base::throw_errno("cannot write " + path);
}

void run(const PlanFlags& flags) {
  const std::vector<schedule::Schedule> schedules = flags.build();
  if (!flags.size.empty()) print_slots(flags, schedules);
  if (!flags.svg.empty()) {
    const std::string picture =
        flag([&] { return schedule::render_svg(std::span<const schedule::Schedule>(schedules)); });
    if (flags.svg == "-")
      std::cout << picture;
    else
      write_file(flags.svg, picture);
  }
  if (flags.text || (flags.svg.empty() && flags.size.empty()))
    for (const schedule::Schedule& schedule : schedules) std::cout << schedule::render_text(schedule) << "\n";
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App& command = *app.add_subcommand("plan", "Show what an algorithm does, step by step, as text or as a picture");
  flags->add_algorithm(command, true);
  flags->add_world(command);
  flags->add_lanes(command);
  flags->add_size(command, false);
  command.add_option("--svg", flags->svg, "file to write a picture to; - for standard output");
  command.add_flag("--text", flags->text, "print the steps of every rank (the default without --svg and --size)");
  command.callback([flags] { run(*flags); });
}

}  // namespace tutti::tools

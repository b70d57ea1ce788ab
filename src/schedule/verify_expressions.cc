// The verifier's part that follows the data: which contributions every chunk holds, and by which expression they were
// combined. Expressions are interned, one node per distinct reduction, so equal trees are equal numbers.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "src/schedule/collectives.h"
#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

using std::to_string;

constexpr int kUnwritten = -1;

struct Expression {
  std::vector<Contribution> contributions;  // sorted
  int chunk = 0;                            // of a block: tells how many elements this is
};

struct NodeHash {
  std::size_t operator()(const std::vector<int>& operands) const {
    std::size_t hash = operands.size();
    for (int operand : operands) hash = (hash ^ static_cast<std::size_t>(operand)) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
  }
};

class Expressions {
 public:
  const Expression& operator[](int node) const { return nodes_[at(node)]; }

  int leaf(Contribution contribution, int chunk) {
    const auto [found, is_new] = leaves_.insert({contribution, static_cast<int>(nodes_.size())});
    if (is_new) nodes_.push_back({{contribution}, chunk});
    return found->second;
  }

  // The reduction of several nodes, left to right. A contribution that occurs twice is reported in `twice`.
  int reduction(std::vector<int> operands, std::optional<Contribution>& twice) {
    if (operands.size() == 2 && operands[0] > operands[1]) std::swap(operands[0], operands[1]);
    const auto [found, is_new] = reductions_.insert({operands, static_cast<int>(nodes_.size())});
    if (is_new) {
      Expression sum{{}, nodes_[at(operands.front())].chunk};
      for (int operand : operands) {
        const auto& more = nodes_[at(operand)].contributions;
        sum.contributions.insert(sum.contributions.end(), more.begin(), more.end());
      }
      std::sort(sum.contributions.begin(), sum.contributions.end());
      const auto same = std::adjacent_find(sum.contributions.begin(), sum.contributions.end());
      if (same != sum.contributions.end()) twice = *same;
      nodes_.push_back(std::move(sum));
    }
    return found->second;
  }

 private:
  std::vector<Expression> nodes_;
  std::map<Contribution, int> leaves_;
  std::unordered_map<std::vector<int>, int, NodeHash> reductions_;
};

struct Value {
  int node = kUnwritten;
  bool scaled = false;   // a postscale mark has been applied
  int last_writer = -1;  // Step
};

std::string text_of(const Contribution& c) {
  return "input chunk " + to_string(c.chunk) + " of rank " + to_string(c.rank);
}

// Runs one round of the Schedule on expressions, then compares the outputs with the contract and with each other.
class Evaluation {
 public:
  Evaluation(const Schedule& schedule, const Contract& contract, const Wiring& wiring)
      : schedule_(schedule), contract_(contract), wiring_(wiring), messages_(at(wiring.size())) {
    for (int r = 0; r < schedule.ranks; ++r) {
      output_.emplace_back(at(schedule.output_chunks));
      scratch_.emplace_back(at(schedule.scratch_chunks));
    }
  }

  std::optional<Fault> run() {
    for (int id : wiring_.firing_order())
      if (auto fault = fire(id)) return fault;
    if (auto fault = check_contributions()) return fault;
    if (auto fault = check_equality()) return fault;
    return check_scaling();
  }

 private:
  bool reducing() const { return traits_of(schedule_.collective).reduces; }
  int per_block() const { return schedule_.input_chunks / schedule_.input_blocks; }

  Value& memory(int rank, Buffer buffer, int chunk) {
    return (buffer == Buffer::output ? output_ : scratch_)[at(rank)][at(chunk)];
  }

  Value operand(int id, std::size_t k, int c) {
    const Operand& in = wiring_.step(id).in[k];
    const int rank = wiring_.place(id).rank;
    if (in.kind == Operand::Kind::recv) return messages_[at(wiring_.senders(id)[k])][at(c)];
    if (in.buffer != Buffer::input) return memory(rank, in.buffer, in.index + c);
    return {expressions_.leaf({rank, in.index + c}, (in.index + c) % per_block()), false, -1};
  }

  Fault fault_at(int id, FaultKind kind, const std::string& what) const {
    return {kind, "At " + schedule::text_of(wiring_.place(id)) + ": " + what + ".", wiring_.place(id)};
  }

  static std::string name_of(const Operand& in, int c) {
    if (in.kind == Operand::Kind::recv) return "the message of port " + to_string(in.index);
    return schedule::text_of(in.buffer, in.index + c);
  }

  // The result of chunk c of a Step.
  std::optional<Fault> combine(int id, int c, Value& result) {
    const Step& step = wiring_.step(id);
    std::vector<int> nodes;
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      const Value value = operand(id, k, c);
      const std::string name = name_of(step.in[k], c);
      if (value.node == kUnwritten)
        return fault_at(id, FaultKind::contract, "reads " + name + ", which nothing has been written to");
      if (!nodes.empty() && expressions_[value.node].chunk != expressions_[nodes.front()].chunk)
        return fault_at(id, FaultKind::contract,
                        "combines " + name_of(step.in.front(), c) + ", which has the extent of chunk " +
                            to_string(expressions_[nodes.front()].chunk) + ", with " + name +
                            ", which has that of chunk " + to_string(expressions_[value.node].chunk));
      if (value.scaled && (step.in.size() > 1 || step.postscale))
        return fault_at(id, FaultKind::scaling, name + " is a finished result, which must only be copied");
      result.scaled = value.scaled || step.postscale;
      nodes.push_back(value.node);
    }
    if (nodes.empty()) return {};
    std::optional<Contribution> twice;
    result.node = nodes.size() == 1 ? nodes.front() : expressions_.reduction(nodes, twice);
    result.last_writer = id;
    if (twice) return fault_at(id, FaultKind::contract, "reduces " + text_of(*twice) + " twice");
    return {};
  }

  std::optional<Fault> fire(int id) {
    const Step& step = wiring_.step(id);
    if (auto fault = check_marks(id)) return fault;
    std::vector<Value> results(at(step.chunks));
    for (int c = 0; c < step.chunks; ++c)
      if (auto fault = combine(id, c, results[at(c)])) return fault;
    for (const Destination& out : step.out) {
      for (int c = 0; c < step.chunks && out.kind == Destination::Kind::local; ++c) {
        const int chunk = out.index + c, extent = expressions_[results[at(c)].node].chunk;
        if (extent != chunk % per_block())
          return fault_at(id, FaultKind::contract,
                          "writes what has the extent of chunk " + to_string(extent) + " to " +
                              schedule::text_of(out.buffer, chunk));
        if (out.buffer == Buffer::output &&
            contract_.set_of[at(wiring_.place(id).rank)][at(chunk)] == Contract::kUnlisted)
          return fault_at(id, FaultKind::contract,
                          "writes " + schedule::text_of(out.buffer, chunk) + ", which must be left alone");
        memory(wiring_.place(id).rank, out.buffer, chunk) = results[at(c)];
      }
    }
    messages_[at(id)] = std::move(results);
    return {};
  }

  std::optional<Fault> check_marks(int id) const {
    const Step& step = wiring_.step(id);
    for (const Operand& in : step.in)
      if (in.prescale != (reducing() && in.kind == Operand::Kind::local && in.buffer == Buffer::input))
        return fault_at(id, FaultKind::scaling,
                        in.prescale ? "an operand that is no raw contribution is pre-scaled"
                                    : "a raw contribution is not pre-scaled");
    if (step.postscale && !reducing())
      return fault_at(id, FaultKind::scaling, "post-scales, but the collective reduces nothing");
    return {};
  }

  // The Step that last wrote an output chunk, or only its rank.
  StepPlace writer_of(int rank, const Value& value) const {
    return value.last_writer >= 0 ? wiring_.place(value.last_writer) : StepPlace{rank, -1, -1};
  }

  Fault output_fault(FaultKind kind, int rank, int chunk, const std::string& what) const {
    const Value& value = output_[at(rank)][at(chunk)];
    std::string text = "Output chunk " + to_string(chunk) + " of rank " + to_string(rank) + " " + what;
    if (value.last_writer >= 0)
      text += "; it was last written at " + schedule::text_of(wiring_.place(value.last_writer));
    return {kind, text + ".", writer_of(rank, value)};
  }

  template <class Check>
  std::optional<Fault> for_each_listed(Check check) const {
    for (int r = 0; r < schedule_.ranks; ++r)
      for (int c = 0; c < schedule_.output_chunks; ++c)
        if (const int set = contract_.set_of[at(r)][at(c)]; set != Contract::kUnlisted)
          if (std::optional<Fault> fault = check(r, c, set)) return fault;
    return {};
  }

  std::optional<Fault> check_contributions() const {
    return for_each_listed([&](int r, int c, int set) -> std::optional<Fault> {
      const Value& value = output_[at(r)][at(c)];
      if (value.node == kUnwritten) return output_fault(FaultKind::contract, r, c, "is never written");
      const auto& required = contract_.sets[at(set)];
      const auto& found = expressions_[value.node].contributions;
      std::vector<Contribution> lacks, extra;
      std::set_difference(required.begin(), required.end(), found.begin(), found.end(), std::back_inserter(lacks));
      std::set_difference(found.begin(), found.end(), required.begin(), required.end(), std::back_inserter(extra));
      if (!lacks.empty())
        return output_fault(FaultKind::contract, r, c, "lacks the contribution of " + text_of(lacks.front()));
      if (!extra.empty())
        return output_fault(FaultKind::contract, r, c,
                            "holds a contribution of " + text_of(extra.front()) + " that it must not");
      return {};
    });
  }

  // Names a rank whose tree differs from the most common one.
  std::optional<Fault> check_equality() const {
    std::vector<std::map<int, int>> holders(contract_.sets.size());  // of a set: how many chunks hold each node
    (void)for_each_listed([&](int r, int c, int set) -> std::optional<Fault> {
      ++holders[at(set)][output_[at(r)][at(c)].node];
      return {};
    });
    return for_each_listed([&](int r, int c, int set) -> std::optional<Fault> {
      const auto& nodes = holders[at(set)];
      const auto common =
          std::max_element(nodes.begin(), nodes.end(), [](auto& a, auto& b) { return a.second < b.second; });
      if (output_[at(r)][at(c)].node == common->first) return {};
      return output_fault(FaultKind::unequal_results, r, c,
                          "combines its contributions in another order than most of its holders do, so that results of "
                          "different ranks may differ");
    });
  }

  std::optional<Fault> check_scaling() const {
    if (!reducing()) return {};
    return for_each_listed([&](int r, int c, int) -> std::optional<Fault> {
      if (output_[at(r)][at(c)].scaled) return {};
      return output_fault(FaultKind::scaling, r, c, "is never post-scaled: no step with all its chunks completes it");
    });
  }

  const Schedule& schedule_;
  const Contract& contract_;
  const Wiring& wiring_;
  Expressions expressions_;
  std::vector<std::vector<Value>> output_, scratch_;  // [rank][chunk]
  std::vector<std::vector<Value>> messages_;          // of every Step that has run, its result
};

}  // namespace

std::optional<Fault> check_expressions(const Schedule& schedule, const Contract& contract, const Wiring& wiring) {
  return Evaluation(schedule, contract, wiring).run();
}

}  // namespace tutti::schedule

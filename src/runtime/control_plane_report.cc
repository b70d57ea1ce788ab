#include "src/runtime/control_plane_report.h"

#include <fstream>
#include <map>
#include <sstream>

namespace tutti::runtime {
namespace {

constexpr std::size_t kMaxWaiting = 256;
constexpr std::size_t kMaxPlan = 512;

template <class Enum>
Enum checked(std::uint8_t value, int count) {
  return static_cast<Enum>(value < count ? value : 0);
}

// The state letter of /proc/<pid>/stat, which follows the name in parentheses; 0 when there is no such process.
char process_state(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

std::string clause(const RankState& state, const OperationRecord& record) {
  const OperationRecord& current = state.current;
  const std::string waits = state.waiting.empty() ? "" : "waits for " + state.waiting;
  if (record.exchange != 0 || (current.exchange != 0 && current.sequence == record.sequence)) {
    const std::string before = record.exchange != 0 ? "" : "has finished #" + std::to_string(record.sequence) + " and ";
    if (state.running) return before + "is in " + describe(current) + (waits.empty() ? "" : " and " + waits);
    return "is in no operation" +
           (current.sequence == 0 ? "" : " (it finished #" + std::to_string(current.sequence) + ")");
  }
  if (current.sequence < record.sequence) {
    std::string text = "has not entered " + describe(record);
    if (state.running)
      return text + " (it is still in " + describe(current) + (waits.empty() ? "" : " and " + waits) + ")";
    return text + (current.sequence == 0 ? " (it has entered no operation yet)"
                                         : " (it finished #" + std::to_string(current.sequence) + ")");
  }
  if (current.sequence > record.sequence)
    return "has finished #" + std::to_string(record.sequence) + (state.running ? " and is in " : " and finished ") +
           describe(current) + (waits.empty() ? "" : " and " + waits);
  if (current != record) return "called " + describe(current) + " instead";
  if (!state.running) return "has finished it";
  return waits.empty() ? "is in it and does not wait" : waits;
}

}  // namespace

void put(Writer& writer, const OperationRecord& record) {
  writer.u64(record.sequence).u8(static_cast<std::uint8_t>(record.collective));
  writer.u8(static_cast<std::uint8_t>(record.type)).u8(static_cast<std::uint8_t>(record.op));
  writer.u32(static_cast<std::uint32_t>(record.root)).u64(record.count).u64(record.plan).u64(record.exchange);
}

OperationRecord take_record(Reader& reader) {
  OperationRecord record;
  record.sequence = reader.u64();
  record.collective = checked<Collective>(reader.u8(), kCollectives);
  record.type = checked<DataType>(reader.u8(), kDataTypes);
  record.op = checked<ReduceOp>(reader.u8(), kReduceOps);
  record.root = static_cast<std::int32_t>(reader.u32());
  record.count = reader.u64();
  record.plan = reader.u64();
  record.exchange = reader.u64();
  return record;
}

void put(Writer& writer, const RankState& state) {
  put(writer, state.current);
  writer.u8(state.running).text(state.waiting.substr(0, kMaxWaiting));
}

RankState take_state(Reader& reader) {
  RankState state;
  state.current = take_record(reader);
  state.running = reader.u8() != 0;
  state.waiting = reader.text().substr(0, kMaxWaiting);
  return state;
}

std::string describe_silent(const Member& member, const HostFacts& here) {
  if (member.host.boot.empty() || member.host.boot != here.boot || member.host.pid_namespace != here.pid_namespace)
    return "does not answer";
  switch (process_state(member.pid)) {
    case 'T': return "is stopped (SIGSTOP)";
    case 't': return "is stopped by a debugger";
    case 'Z':
    case 'X': return "has ended (its parent has not taken note yet)";
    case '\0': return "has ended";
    case 'D': return "does not answer (it is in uninterruptible sleep)";
    default: return "does not answer (its process is alive)";
  }
}

void put(Writer& writer, const StatedCall& call) {
  put(writer, call.record);
  writer.text(call.plan.substr(0, kMaxPlan));
}

StatedCall take_call(Reader& reader) {
  StatedCall call;
  call.record = take_record(reader);
  call.plan = reader.text().substr(0, kMaxPlan);
  if (call.plan.empty()) call.plan = "a plan of another build of the library";  // that does not send it
  return call;
}

StatedCall stated(const OperationRecord& record, const RankState& state) {
  const auto plan = state.plans.find(record.plan);
  return {record,
          (plan == state.plans.end() ? "a plan it has no words for" : plan->second) + ", library " + kLibraryVersion};
}

std::string describe_mismatch(int a, const StatedCall& first, int b, const StatedCall& second) {
  std::string one = describe(first.record), two = describe(second.record), advice;
  if (one == two && first.record.plan != second.record.plan) {
    one += " by " + first.plan;
    two += " by " + second.plan;
    advice =
        first.plan == second.plan
            ? "; these plans have the same values but not the same steps: do all ranks run one build of the library?"
            : "; give all ranks the same settings and the same build of the library";
  } else if (one == two) {
    one += " (op " + std::string(name_of(first.record.op)) + ", root " + std::to_string(first.record.root) + ")";
    two += " (op " + std::string(name_of(second.record.op)) + ", root " + std::to_string(second.record.root) + ")";
  }
  return "calls do not match: rank " + std::to_string(a) + " called " + one + ", rank " + std::to_string(b) +
         " called " + two + advice;
}

std::string describe(const Inspection& inspection, const OperationRecord& record) {
  // Ranks of which the same is to be said share a clause; ranks that need a name of their own have one each.
  std::vector<std::pair<std::string, std::vector<int>>> clauses;
  const auto say = [&](int rank, const std::string& text) {
    for (auto& [known, ranks] : clauses)
      if (known == text) return ranks.push_back(rank);
    clauses.push_back({text, {rank}});
  };
  std::string named;
  for (std::size_t i = 0; i < inspection.members.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (inspection.left[i])
      say(rank, "left after operation #" + std::to_string(*inspection.left[i]));
    else if (inspection.states[i])
      say(rank, clause(*inspection.states[i], record));
    else
      named += (named.empty() ? "" : "; ") + inspection.members[i].text() + " " +
               describe_silent(inspection.members[i], inspection.here);
  }
  std::string text = named;
  for (const auto& [what, ranks] : clauses)
    text += (text.empty() ? "" : "; ") + std::string(ranks.size() > 1 ? "ranks " : "rank ") + ranges(ranks) +
            (ranks.size() > 1 ? ": each " : " ") + what;
  return text;
}

}  // namespace tutti::runtime

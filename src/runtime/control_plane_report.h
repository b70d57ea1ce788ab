// What the control plane says about ranks: the records and states it carries, and the sentences made of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/runtime/control_plane.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {

void put(Writer& writer, const OperationRecord& record);
OperationRecord take_record(Reader& reader);  // unknown enumerators become 0
void put(Writer& writer, const RankState& state);
RankState take_state(Reader& reader);

// What the operating system says of a process that does not answer; "does not answer" when it cannot be asked from
// here (another host or PID namespace).
std::string describe_silent(const Member& member, const HostFacts& here);

// A rank's call, and in words the plan it runs it by.
struct StatedCall {
  OperationRecord record;
  std::string plan;
};
void put(Writer& writer, const StatedCall& call);
StatedCall take_call(Reader& reader);
// The call in words of a rank that is in the state `state`.
StatedCall stated(const OperationRecord& record, const RankState& state);
// "calls do not match: rank 0 called all_reduce #17 float x 1024 sum, rank 3 called ...", with the plans when all else
// is equal.
std::string describe_mismatch(int a, const StatedCall& first, int b, const StatedCall& second);

struct Inspection {
  std::vector<Member> members;
  std::vector<std::optional<RankState>> states;    // nothing: did not answer
  std::vector<std::optional<std::uint64_t>> left;  // after which operation
  HostFacts here;
};
// The report on `record`: one clause per rank that has something to say, "; " between them.
std::string describe(const Inspection& inspection, const OperationRecord& record);

}  // namespace tutti::runtime

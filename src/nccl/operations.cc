// Collectives and transfers: the second step of a group's end, and of a call that stands alone.
#include <chrono>
#include <thread>

#include "src/nccl/group.h"

namespace tutti::nccl {
namespace {

// Everything on one communicator.
struct Part {
  Use use;  // outlives the mark
  std::unique_ptr<Member::InOperation> mark;
  std::vector<CollectiveCall> calls;
  std::vector<Transfer> transfers;

  bool single() const { return calls.size() + (transfers.empty() ? 0 : 1) == 1; }
};

std::vector<Part> parts_of(const std::vector<Operation>& operations) {
  std::vector<Part> parts;
  for (const Operation& operation : operations) {
    Part* part = nullptr;
    for (Part& known : parts)
      if (known.use.handle() == operation.comm) part = &known;
    if (part == nullptr) part = &parts.emplace_back(Part{Use(operation.comm), nullptr, {}, {}});
    if (const CollectiveCall* call = std::get_if<CollectiveCall>(&operation.what))
      part->calls.push_back(*call);
    else
      part->transfers.push_back(std::get<Transfer>(operation.what));
  }
  for (Part& part : parts) {
    part.use->usable();  // throws when it is not
    part.mark = std::make_unique<Member::InOperation>(*part.use);
  }
  return parts;
}

struct Pending {
  Member* member;
  Work work;
};

// The errors of one member's operations.
class Outcome {
 public:
  template <class Do>
  void attempt(Member& member, Do what) {
    try {
      what();
    } catch (const Error& error) {
      member.note(error);
      member.set_last_error(error.what());
      errors_.push_back(error);
    }
  }
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

void start(const Part& part, std::vector<Pending>& pending) {
  Member& member = *part.use;
  Communicator& communicator = member.usable();
  const auto hold = [&](Work work) {
    if (member.settings().blocking)
      pending.push_back({&member, std::move(work)});
    else
      member.keep(std::move(work));
  };
  for (const CollectiveCall& call : part.calls) hold(communicator.start(call));
  if (!part.transfers.empty()) hold(communicator.exchange_async(part.transfers));
}

void run_single(const Part& part) {
  Communicator& communicator = part.use->usable();
  if (part.transfers.empty())
    communicator.run(part.calls.front());
  else
    communicator.exchange(part.transfers);
}

// Ranks of one communicator may be among them, and need each other: all are looked at by turns, and with every turn
// that brings nothing the next one may wait a little longer. (The engine's threads drive them too.)
void wait_for_all(std::vector<Pending>& pending, Outcome& outcome) {
  using std::chrono::microseconds;
  constexpr int kSpins = 200;
  constexpr microseconds kLongest{200};
  int idle = 0;
  while (!pending.empty()) {
    const std::size_t before = pending.size();
    std::erase_if(pending, [&](Pending& one) {
      if (!one.work.test()) return false;
      outcome.attempt(*one.member, [&] { one.work.wait(); });
      return true;
    });
    idle = pending.size() < before ? 0 : idle + 1;
    if (idle > 2 * kSpins)
      std::this_thread::sleep_for(std::min(microseconds(idle - 2 * kSpins), kLongest));
    else if (idle > kSpins)
      std::this_thread::yield();
  }
}

}  // namespace

ncclResult_t run_operations(const std::vector<Operation>& operations) {
  std::vector<Part> parts = parts_of(operations);
  Outcome outcome;
  if (parts.size() == 1 && parts.front().single() && parts.front().use->settings().blocking) {
    outcome.attempt(*parts.front().use, [&] { run_single(parts.front()); });
  } else {
    std::vector<Pending> pending;
    for (const Part& part : parts) outcome.attempt(*part.use, [&] { start(part, pending); });
    if (parts.size() == 1)  // they run in this order: no other needs driving meanwhile
      for (Pending& one : pending) outcome.attempt(*one.member, [&] { one.work.wait(); });
    else
      wait_for_all(pending, outcome);
  }
  throw_all(outcome.errors());
  ncclResult_t result = ncclSuccess;
  for (const Part& part : parts) {
    if (part.use->settings().blocking) continue;
    const ncclResult_t state = part.use->poll();
    if (state != ncclSuccess && state != ncclInProgress) return state;  // it has failed already
    if (state == ncclInProgress) result = state;
  }
  return result;
}

double predicted_us(const std::vector<Operation>& operations) {
  double longest = 0;  // communicators run side by side
  for (const Part& part : parts_of(operations)) {
    double sum = 0;
    for (const CollectiveCall& call : part.calls)
      sum += part.use->usable().explain(call.collective, call.count, call.type, call.op).predicted_us;
    longest = std::max(longest, sum);
  }
  return longest;
}

}  // namespace tutti::nccl

// The owner's side of the control plane: calls from any thread, answers under the mutex.
#include "src/runtime/control_plane_core.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/runtime/control_plane_report.h"
#include "tutti/communicator.h"

namespace tutti::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kVerdict{50};      // for the centre to say whose fault was the first
constexpr milliseconds kInspection{600};  // for the report of an inspection
constexpr milliseconds kGoodbye{80};      // for the last message to be on its way
constexpr milliseconds kLinger{5000};     // for the other end to close
constexpr milliseconds kStallAgain{20};   // between reports of one record
constexpr milliseconds kOrphan{1000};     // without a message to an orphan: nothing more will come

}  // namespace

ControlCore::ControlCore(std::shared_ptr<Engine> engine, int rank, int size, std::function<RankState()> state,
                         std::function<void()> on_fault)
    : engine_(std::move(engine)), rank_(rank), size_(size), on_fault_(std::move(on_fault)), state_(std::move(state)) {
  lines_.resize(rank == 0 ? static_cast<std::size_t>(size) : 1);
  reports_.resize(static_cast<std::size_t>(size));
  left_.resize(static_cast<std::size_t>(size));
}

void ControlCore::set_members(std::vector<Member> members) {
  std::lock_guard lock(mutex_);
  members_ = std::move(members);
}

std::string ControlCore::who(int rank) {
  std::lock_guard lock(mutex_);
  return members_.empty() ? "rank " + std::to_string(rank) : members_[static_cast<std::size_t>(rank)].text();
}

// Waits for `done`, which is called under the mutex. On the engine's thread the waiting thread is the one that would
// bring the answer, so there it serves the sockets meanwhile.
bool ControlCore::wait_until(Clock::time_point limit, const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  if (!engine_->on_thread()) return changed_.wait_until(lock, limit, done);
  while (!done()) {
    const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now());
    if (left.count() <= 0) return false;
    lock.unlock();
    engine_->serve(left);
    lock.lock();
  }
  return true;
}

std::string ControlCore::missing_of(std::uint64_t round) {
  std::vector<int> missing;
  std::lock_guard lock(mutex_);
  if (rank_ != 0) return missing_.first == round ? missing_.second : "rank 0, which has not said who else is missing,";
  const auto found = rounds_.find(round);
  for (int rank = 0; rank < size_; ++rank)
    if (found == rounds_.end() || !found->second[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  return (missing.size() == 1 ? "rank " : "ranks ") + ranges(missing);
}

std::vector<Bytes> ControlCore::all_gather(const Bytes& mine, Clock::time_point deadline) {
  if (!engine_->alive())
    throw Error(ErrorCode::invalid_usage, "this communicator was made before fork(); a child process makes its own");
  if (mine.size() > kMaxBlob)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank_) + " gives " + std::to_string(mine.size()) +
                                                 " bytes to the control plane; at most " + std::to_string(kMaxBlob) +
                                                 " are allowed");
  std::uint64_t round = 0;
  bool faulty = false;
  {
    std::lock_guard lock(mutex_);
    faulty = fault_.has_value();
    round = ++round_;
  }
  if (faulty) throw fault();  // also when the others' shares would complete the round
  engine_->post([self = shared_from_this(), request = Writer().u64(round).blob(mine).bytes()] {
    self->to_centre(kGather, request);
  });
  const bool done = wait_until(deadline, [&] { return fault_ || gathered_.count(round); });
  if (!done) {
    const std::string text = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " waited in vain for " +
                             missing_of(round) + " to exchange connection facts over the control plane";
    if (rank_ == 0) raise(ErrorCode::timeout, text);  // without the centre nobody gets any further
    throw Error(ErrorCode::timeout, text);
  }
  {
    std::lock_guard lock(mutex_);
    const auto found = gathered_.find(round);
    if (found != gathered_.end()) {
      auto all = std::move(found->second);
      gathered_.erase(found);
      return all;
    }
  }
  throw fault();
}

Error ControlCore::fault() {
  wait_until(Clock::now() + kVerdict, [&] { return !fault_ || settled_ || !engine_->alive(); });
  std::lock_guard lock(mutex_);
  if (!fault_) return Error(ErrorCode::internal_error, "fault() was called although no fault was raised");
  return Error(fault_->code, fault_->text);
}

void ControlCore::raise(ErrorCode code, const std::string& text) {
  if (!engine_->alive()) return;
  {
    std::lock_guard lock(mutex_);
    if (fault_ || gone_) return;
    fault_ = Fault{code, text};
    if (on_fault_) on_fault_();
  }
  changed_.notify_all();
  engine_->post([self = shared_from_this(), code, text] {
    self->to_centre(kFault, Writer().u8(static_cast<std::uint8_t>(code)).text(text).bytes());
  });
}

void ControlCore::settle(ErrorCode code, const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    if (settled_) return;
    settled_ = true;
    fault_ = Fault{code, text};
    if (on_fault_) on_fault_();
  }
  changed_.notify_all();
}

// "rank 3 left after operation #12; rank 0 waits in all_reduce #13"; nothing when no rank has left too early.
std::optional<std::string> ControlCore::early_leaver(const OperationRecord& record) {
  std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < left_.size(); ++rank)
    if (left_[rank] && *left_[rank] < record.sequence)
      return "rank " + std::to_string(rank) + " left after operation #" + std::to_string(*left_[rank]);
  return std::nullopt;
}

void ControlCore::report_stall(const OperationRecord& record) {
  if (!engine_->alive()) return;
  if (const auto leaver = record.exchange != 0 ? std::nullopt : early_leaver(record))
    return raise(ErrorCode::remote_error,
                 *leaver + "; rank " + std::to_string(rank_) + " waits in " + describe(record));
  bool orphaned = false;
  {
    std::lock_guard lock(mutex_);
    orphaned = orphaned_;
  }
  if (orphaned) return orphan_stalled(record);
  if (record.exchange != 0) return;  // ranks make different ones
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (stalled_ == record && now - stall_sent_ < kStallAgain) return;
    stalled_ = record;
    stall_sent_ = now;
  }
  engine_->post([self = shared_from_this(), record] {
    Writer request;
    put(request, stated(record, self->own_state()));
    self->to_centre(kStall, request.bytes());
  });
}

// Nobody can tell this rank why it waits. A wait for one message that lasts is a fault; one for ever new messages is
// an operation that moves.
void ControlCore::orphan_stalled(const OperationRecord& record) {
  std::string waits = own_state().waiting;
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (orphan_since_ == Clock::time_point{} || stalled_ != record || orphan_waits_ != waits) {
      stalled_ = record;
      orphan_waits_ = std::move(waits);
      orphan_since_ = now;
      return;
    }
    if (now - orphan_since_ < kOrphan) return;
  }
  settle(ErrorCode::remote_error, "rank 0, which carries the news between ranks, has ended; rank " +
                                      std::to_string(rank_) + " waits in " + describe(record) +
                                      (waits.empty() ? "" : " for " + waits) + ": a rank may have died unheard");
}

std::string ControlCore::inspect(const OperationRecord& record) {
  if (!engine_->alive()) return "this communicator was made before fork()";
  std::uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++inspections_;
    inspected_[id];
  }
  engine_->post([self = shared_from_this(), id] { self->to_centre(kInspect, Writer().u64(id).bytes()); });
  wait_until(Clock::now() + kInspection, [&] { return !inspected_[id].empty(); });

  Inspection inspection;
  inspection.here = HostFacts::of_this_process();
  {
    std::lock_guard lock(mutex_);
    inspection.members = members_;
    inspection.left = left_;
    inspection.states = std::move(inspected_[id]);
    inspected_.erase(id);
  }
  inspection.members.resize(static_cast<std::size_t>(size_));
  const bool answered = !inspection.states.empty();
  inspection.states.resize(static_cast<std::size_t>(size_));
  if (!answered) inspection.states[static_cast<std::size_t>(rank_)] = own_state();
  return describe(inspection, record);
}

RankState ControlCore::own_state() {
  std::lock_guard lock(state_mutex_);
  return state_ ? state_() : RankState{};
}

bool ControlCore::has_left(int rank) {
  std::lock_guard lock(mutex_);
  return left_[static_cast<std::size_t>(rank)].has_value();
}

void ControlCore::leave(std::uint64_t last) {
  if (!engine_->alive()) return;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(gone_, true)) return;
  }
  auto sent = std::make_shared<bool>(false);
  engine_->post([self = shared_from_this(), last, sent] {
    self->to_centre(kLeave, Writer().u64(last).bytes());
    if (self->rank_ != 0 && self->lines_[0]) self->lines_[0]->finish();
    std::lock_guard lock(self->mutex_);
    *sent = true;
    self->changed_.notify_all();
  });
  // The process may end right after this; the others must have heard by then.
  wait_until(Clock::now() + kGoodbye, [&] { return *sent; });
  if (rank_ == 0) relay_for_others();
}

// Keeps rank 0's process until the ranks of other processes have left. The engine relays for those of this process.
void ControlCore::relay_for_others() {
  std::vector<std::size_t> others;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t rank = 1; rank < members_.size(); ++rank)
      if (!members_[rank].same_process(members_[0])) others.push_back(rank);
  }
  wait_until(Clock::now() + kLeaveTimeout / 2, [&] {
    return fault_ || std::all_of(others.begin(), others.end(), [&](std::size_t rank) { return left_[rank]; });
  });
}

void ControlCore::release() {
  {
    std::scoped_lock lock(mutex_, state_mutex_);
    state_ = nullptr;
    on_fault_ = nullptr;
  }
  if (!engine_->alive()) return;
  bool left = false;
  {
    std::lock_guard lock(mutex_);
    left = gone_;
  }
  const std::string why = who(rank_) + " gave up its communicator";
  auto sent = std::make_shared<bool>(false);
  engine_->post([self = shared_from_this(), left, why, sent] {
    if (!left) {
      self->to_centre(kFault, Writer().u8(static_cast<std::uint8_t>(ErrorCode::remote_error)).text(why).bytes());
      if (self->rank_ != 0 && self->lines_[0]) self->lines_[0]->finish();
    }
    // A member waits for the centre to close its end. So does the centre, for as long as members go on without it;
    // after a fault nobody does.
    if (self->rank_ != 0 || self->decided_)
      self->engine_->after(kLinger, [weak = self->weak_from_this()] {
        if (const auto core = weak.lock())
          for (const auto& line : core->lines_)
            if (line) line->close();
      });
    std::lock_guard lock(self->mutex_);
    self->gone_ = true;
    *sent = true;
    self->changed_.notify_all();
  });
  wait_until(Clock::now() + kGoodbye, [&] { return *sent; });
}

}  // namespace tutti::runtime

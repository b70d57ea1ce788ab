// The control plane: how the ranks of a communicator meet, and how they tell each other of deaths, disagreements and
// aborts while the data plane runs. A star of sockets with rank 0 in its centre, served by the Engine's thread of each
// process, so that news travels while callers compute.
//
// A socket that closes without leave() means that its rank died. The first rank to notice a fault raises it; every rank
// gets the same message. Waiting threads see a fault through one atomic load (fault_raised).
//
// Thread safety: all members may be called from any thread, except all_gather (the connecting thread only).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/job.h"
#include "src/runtime/operation_record.h"
#include "tutti/error.h"

namespace tutti::runtime {

// What a rank is doing right now, for the report on a stuck operation. Filled by the callback of connect().
struct RankState {
  OperationRecord current;                     // the last operation entered
  bool running = false;                        // still in it
  std::vector<OperationRecord> recent;         // the last operations entered, in any order; stays on this rank
  std::map<std::uint64_t, std::string> plans;  // OperationRecord::plan in words, for people; stays on this rank
  std::string waiting;  // "a message from rank 3 (port 7, message 12)"; empty when it does not wait
};

class ControlPlane {
 public:
  // Meets the other ranks: blocks until all `job.size` have come or `deadline` passes. While it waits it logs which
  // ranks are missing ("waiting for ranks 5-7 of 16; 9 connected; ..."). Throws Error that names the missing ranks.
  // `state` is called from the engine's thread and must not block.
  static std::unique_ptr<ControlPlane> connect(const Job& job, std::chrono::steady_clock::time_point deadline,
                                               std::function<RankState()> state);
  virtual ~ControlPlane() = default;

  // Every rank gives a blob and gets all of them, element i from rank i. For connect time; blocks.
  virtual std::vector<std::vector<std::byte>> all_gather(const std::vector<std::byte>& mine,
                                                         std::chrono::steady_clock::time_point deadline) = 0;

  // True once any rank has raised a fault (or died). One atomic load, which acquires the release store made by the
  // thread that learnt of the fault; the text itself is behind a mutex.
  bool fault_raised() const { return fault_raised_.load(std::memory_order_acquire); }
  // Becomes readable with the fault, and stays so: what a sleeping thread polls. -1 on a rank that is alone.
  virtual int fault_fd() const { return -1; }
  // The fault, after fault_raised().
  virtual Error fault() const = 0;

  // Raises a fault here and on every rank; the first one wins everywhere. Returns at once.
  virtual void raise(ErrorCode code, const std::string& message) = 0;

  // This rank has made no progress on `record` for a while. The centre compares all such reports; two different records
  // of one sequence number raise invalid_usage with both in the message; exchanges are not compared. Returns at once.
  // An operation that completes later needs no retraction.
  virtual void report_stall(const OperationRecord& record) = 0;

  // Asks every rank for its state and says in sentences which never entered `record`, which wait for whom, which are
  // stopped and which do not answer. Blocks, at most about a second.
  virtual std::string inspect(const OperationRecord& record) = 0;

  // That rank has left in good order.
  virtual bool has_left(int rank) const { return static_cast<void>(rank), false; }

  // This rank leaves in good order after `last` operations: no fault for the others, unless they wait for more.
  virtual void leave(std::uint64_t last) = 0;

 protected:
  std::atomic<bool> fault_raised_{false};
};

}  // namespace tutti::runtime

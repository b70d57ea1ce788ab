// One rank's view of the job under test: the calls that are timed and the few that the harness itself needs. The
// programs use PeerOf(Communicator); tests put a faulty library in its place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/perf/pattern.h"
#include "tutti/communicator.h"
#include "tutti/types.h"

namespace tutti::perf {

class Peer {
 public:
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;
  virtual void barrier() = 0;
  // all[r * count + i] = mine[i] of rank r, for the harness's own figures.
  virtual void gather(const double* mine, std::size_t count, double* all) = 0;

  virtual void run(const CollectiveCall& call) = 0;
  virtual void start(const CollectiveCall& call) = 0;
  virtual void exchange(std::span<const Transfer> transfers) = 0;
  virtual void start_exchange(std::span<const Transfer> transfers) = 0;
  // Waits for everything started.
  virtual void finish() = 0;

  virtual PlanInfo explain(Collective collective, std::size_t count, DataType type, ReduceOp op) = 0;
  virtual std::vector<std::string> algorithms(Collective collective) = 0;
  virtual void force_algorithm(const std::string& name) = 0;
  virtual void abort(const std::string& reason) = 0;
};

// A Peer that is a communicator.
class CommunicatorPeer final : public Peer {
 public:
  explicit CommunicatorPeer(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  int local_size() const override { return communicator_.local_size(); }
  void barrier() override { communicator_.barrier(); }
  void gather(const double* mine, std::size_t count, double* all) override {
    communicator_.all_gather(mine, all, count, DataType::float64);
  }
  void run(const CollectiveCall& call) override { communicator_.run(call); }
  void start(const CollectiveCall& call) override { started_.push_back(communicator_.start(call)); }
  void exchange(std::span<const Transfer> transfers) override { communicator_.exchange(transfers); }
  void start_exchange(std::span<const Transfer> transfers) override {
    started_.push_back(communicator_.exchange_async(transfers));
  }
  void finish() override {
    for (Work& work : started_) work.wait();
    started_.clear();
  }
  PlanInfo explain(Collective collective, std::size_t count, DataType type, ReduceOp op) override {
    return communicator_.explain(collective, count, type, op);
  }
  std::vector<std::string> algorithms(Collective collective) override { return communicator_.algorithms(collective); }
  void force_algorithm(const std::string& name) override { communicator_.force_algorithm(name); }
  void abort(const std::string& reason) override { communicator_.abort(reason); }

 private:
  Communicator& communicator_;
  std::vector<Work> started_;
};

}  // namespace tutti::perf

// What Ddp needs from the ranks it trains with. The communicator is one; tests bring a group of threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "tutti/types.h"

namespace tutti {
class Communicator;
}

namespace tutti::ddp {

// A sum in flight. The destructor waits for it.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  virtual void wait() = 0;
  virtual bool test() = 0;  // true when it is complete, failed or not; never blocks
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // data[i] becomes the sum over all ranks; the same bits everywhere.
  virtual std::unique_ptr<PendingSum> start_sum(void* data, std::size_t count, DataType type) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  // output is the inputs of rank 0, 1, ...; every input has the same size.
  virtual void all_gather(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

std::shared_ptr<Group> group_of(Communicator& communicator);

}  // namespace tutti::ddp

// What wakes a sleeping rank (src/runtime/parking.h): a datagram socket with a random abstract name, which becomes
// readable when anybody sends to it. Ringing takes no connection and never blocks; a bell that rings without news costs
// its owner one look.
#pragma once

#include "src/base/fd.h"
#include "transport/shm/fd_passing.h"

namespace tutti::transport {

class Bell {
 public:
  Bell();  // throws Error(system_error)

  const DoorName& name() const { return name_; }
  int fd() const { return socket_.get(); }
  // A bell that is gone, or has been rung often enough already, is left alone.
  void ring(const DoorName& other) const;

 private:
  DoorName name_{};
  base::Fd socket_;
};

}  // namespace tutti::transport

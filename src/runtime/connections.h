// This rank's ends of all ports that plans have used so far. A connection is made when a plan first uses it and kept;
// plans whose ports are equal share it. When the slots of all plans together do not fit the buffer limit, every rank
// forgets all of them at the same operation (the same plans in the same order give the same sums on all ranks).
//
// Thread safety: whoever drives the communicator's operations calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/runtime/arena.h"
#include "src/runtime/executor.h"
#include "src/runtime/transport.h"

namespace tutti::runtime {

class Connections {
 public:
  // `transport_of[r]` carries messages between this rank and rank r; null for this rank itself.
  Connections(int rank, Arena* arena, std::vector<Transport*> transport_of);

  // Makes this rank's rings for the program, if they are not there yet, and fills program.sends.
  void make_rings(BoundProgram& program);
  // Has the transports carry the messages of those rings, if they do not yet. A transport may open connections now.
  void carry(const BoundProgram& program);
  // The same for one port: the end that this rank writes, carried; the one it reads, null until the peer has made it.
  // Stable as long as the connection.
  SendEnd& writing(const PortEnd& port);
  ReceiveEnd* reading(const PortEnd& port);
  // Looks for the peers' rings; true when all of them are there. Never blocks.
  bool bind_receives(BoundProgram& program);
  // Which rank has not made its ring yet, after bind_receives said false.
  int missing_writer(const BoundProgram& program) const;

  // Lets go of every connection but this program's and those that last; programs bound to them must not be used again.
  void forget_all_but(const BoundProgram& kept);

 private:
  PeerMemory memory_of(int peer) const;
  SendEnd& make_ring(const PortEnd& port);
  void carry(const PortEnd& port, SendEnd& end);

  int rank_;
  Arena* arena_;
  std::vector<Transport*> transport_of_;
  std::unordered_map<PortId, std::unique_ptr<SendEnd>> sends_;
  std::unordered_map<PortId, std::unique_ptr<ReceiveEnd>> receives_;
};

}  // namespace tutti::runtime

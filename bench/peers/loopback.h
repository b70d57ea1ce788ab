// Two processes of this host over loopback TCP, without any library: what its sockets give.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::peers {

enum class Receive { sleeping, spinning };  // in the kernel, or asking a non-blocking socket again and again

// One connection; made before forking, after which side 0 belongs to one process and side 1 to the other. Calls throw
// std::runtime_error when the socket fails or the other side stays silent for 20 s.
class LoopbackConnection {
 public:
  LoopbackConnection();
  ~LoopbackConnection();
  LoopbackConnection(const LoopbackConnection&) = delete;
  LoopbackConnection& operator=(const LoopbackConnection&) = delete;

  // Both sides call these. Seconds of one round trip of `bytes`.
  double ping_pong(int side, std::size_t bytes, int rounds, Receive receive);
  // Bytes per second from side 0 to side 1, `total` of them in sends of `block`.
  double stream(int side, std::size_t total, std::size_t block);

 private:
  int sockets_[2] = {-1, -1};
};

}  // namespace tutti::peers

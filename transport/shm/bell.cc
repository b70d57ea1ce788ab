#include "transport/shm/bell.h"

#include <sys/socket.h>

#include "src/base/address.h"
#include "src/base/error.h"

namespace tutti::transport {

Bell::Bell() : name_(random_name()), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const base::SocketAddress here = base::unix_address(text_of(name_));
  if (!socket_ || ::bind(socket_.get(), here.get(), here.length) != 0)
    base::throw_errno("cannot open a Unix socket by which the other ranks of this host wake this one");
}

void Bell::ring(const DoorName& other) const {
  const base::SocketAddress there = base::unix_address(text_of(other));
  const char byte = 0;
  ::sendto(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, there.get(), there.length);
}

}  // namespace tutti::transport

// Stream sockets, IPv4, IPv6 and abstract Unix names alike: all close-on-exec and non-blocking.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/fd.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  std::string text() const;  // "10.0.0.4:41233", "[::1]:41233", "@tutti-..."
  bool local() const { return address.ss_family == AF_UNIX; }
};

// An abstract Unix name: it lives in the network namespace, not in the file system, and dies with its socket.
Endpoint unix_endpoint(const std::string& name);

// All addresses of a host name or a numeric address; empty with the reason in `why` when there are none. May block on
// the name service.
std::vector<Endpoint> resolve(const std::string& host, std::uint16_t port, std::string& why);

// The addresses of this host that others may reach, best first: IPv4, then IPv6, loopback and link-local ones excluded.
std::vector<std::string> host_addresses();

// Listens on every address of this host, IPv6 and IPv4, on `port` (0: any, see port_of). Throws Error(system_error).
base::Fd listen_tcp(std::uint16_t port);
base::Fd listen_unix(const std::string& name);
std::uint16_t port_of(const base::Fd& listener);

// Starts to connect; writable when done, see connect_error(). No descriptor with errno set when it fails at once.
base::Fd start_connect(const Endpoint& endpoint);
int connect_error(int fd);

// Prepares a connection: no Nagle delay, and a silent host is found dead within about 10 s.
void tune(int fd);
std::string peer_of(int fd);

}  // namespace tutti::runtime

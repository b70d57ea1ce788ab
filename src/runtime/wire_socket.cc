#include "src/runtime/wire_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "src/base/error.h"

namespace tutti::runtime {
namespace {

constexpr int kBacklog = 4096;

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

Endpoint endpoint_of(const sockaddr* address, socklen_t length) {
  Endpoint endpoint;
  std::memcpy(&endpoint.address, address, length);
  endpoint.length = length;
  return endpoint;
}

base::Fd open_socket(int family) { return base::Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

Endpoint any_address(int family, std::uint16_t port) {
  Endpoint endpoint;
  if (family == AF_INET6) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    std::memcpy(&endpoint.address, &any, endpoint.length = sizeof any);
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    std::memcpy(&endpoint.address, &any, endpoint.length = sizeof any);
  }
  return endpoint;
}

bool listen_at(const base::Fd& fd, const Endpoint& endpoint) {
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.length) == 0 &&
         ::listen(fd.get(), kBacklog) == 0;
}

}  // namespace

std::string Endpoint::text() const {
  if (address.ss_family == AF_UNIX) {
    const auto& name = reinterpret_cast<const sockaddr_un&>(address);
    const std::size_t bytes = length > offsetof(sockaddr_un, sun_path) ? length - offsetof(sockaddr_un, sun_path) : 0;
    return bytes == 0 ? "a process of this host" : "@" + std::string(name.sun_path + 1, bytes - 1);
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host.data(), host.size(), port.data(),
                    port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  const std::string name = host.data();
  if (name.rfind("::ffff:", 0) == 0 && name.find('.') != std::string::npos) return name.substr(7) + ":" + port.data();
  return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port.data();
}

Endpoint unix_endpoint(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  return endpoint_of(reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes));
}

std::vector<Endpoint> resolve(const std::string& host, std::uint16_t port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::vector<Endpoint> endpoints;
  if (error != 0) {
    why = "cannot resolve '" + host + "': " + (error == EAI_SYSTEM ? base::errno_text() : ::gai_strerror(error));
    return endpoints;
  }
  for (const addrinfo* entry = list; entry; entry = entry->ai_next)
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)
      endpoints.push_back(endpoint_of(entry->ai_addr, entry->ai_addrlen));
  ::freeaddrinfo(list);
  if (endpoints.empty()) why = "'" + host + "' has no IPv4 or IPv6 address";
  return endpoints;
}

std::vector<std::string> host_addresses() {
  std::vector<std::string> v4, v6;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK)) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto& address = reinterpret_cast<const sockaddr_in&>(*entry->ifa_addr);
      if (::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size())) v4.emplace_back(text.data());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto& address = reinterpret_cast<const sockaddr_in6&>(*entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) continue;
      if (::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size())) v6.emplace_back(text.data());
    }
  }
  ::freeifaddrs(list);
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

base::Fd listen_tcp(std::uint16_t port) {
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    base::Fd fd = open_socket(family);
    if (!fd) {
      error = errno;
      continue;
    }
    set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (listen_at(fd, any_address(family, port))) return fd;
    error = errno;
    if (error == EADDRINUSE || error == EACCES) break;  // the other family would only hide it
  }
  std::string hint;
  if (error == EADDRINUSE)
    hint = "; another program listens there: choose another port (MASTER_PORT or TUTTI_RENDEZVOUS) or end that program";
  if (error == EACCES) hint = "; ports below 1024 are reserved: choose a higher one";
  throw Error(ErrorCode::system_error, "cannot listen on port " + std::to_string(port) + " of any address ([::]:" +
                                           std::to_string(port) + "): " + base::errno_text(error) + hint);
}

base::Fd listen_unix(const std::string& name) {
  base::Fd fd = open_socket(AF_UNIX);
  if (!fd || !listen_at(fd, unix_endpoint(name))) {
    const int error = errno;
    throw Error(ErrorCode::system_error,
                "cannot listen on the abstract Unix socket @" + name + ": " + base::errno_text(error) +
                    (error == EADDRINUSE ? "; another rank 0 of the same job listens there" : ""));
  }
  return fd;
}

std::uint16_t port_of(const base::Fd& listener) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length);
  return endpoint.address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(endpoint.address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(endpoint.address).sin_port);
}

base::Fd start_connect(const Endpoint& endpoint) {
  base::Fd fd = open_socket(endpoint.address.ss_family);
  if (!fd) return fd;
  const int result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.length);
  if (result == 0 || errno == EINPROGRESS || errno == EINTR) return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

std::string peer_of(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) != 0)
    return "an unknown address";
  return endpoint.text();
}

}  // namespace tutti::runtime

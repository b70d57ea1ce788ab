// How ranks that share nothing but 128 bytes find each other.
//
// One process calls create() and hands the bytes to every rank by any means (a file, MPI, a socket); every rank passes
// them to Communicator::connect. The id carries the addresses of the creator, which must stay alive until all ranks
// have connected, and a random secret that keeps strangers out.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

struct UniqueId {
  std::array<std::byte, 128> bytes{};

  // Opens the rendezvous of one job in this process. Throws Error(system_error) when no socket can be opened.
  static UniqueId create();

  // 256 hexadecimal digits and back. from_hex throws Error(invalid_argument) for anything else.
  std::string to_hex() const;
  static UniqueId from_hex(std::string_view text);
};

}  // namespace tutti

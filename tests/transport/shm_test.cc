// The door that hands out a rank's memory: to those who know the secret, whatever strangers do.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "transport/shm/fd_passing.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::transport;

namespace {

base::Fd knock(const DoorName& name) {
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  return socket;
}

}  // namespace

TEST_CASE("a door hands its descriptor to those who know the secret, past silent and noisy strangers") {
  const base::Fd shared(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::array<std::byte, 32> secret{};
  secret[3] = std::byte{7};
  Door door(runtime::Engine::acquire(), shared.get(), secret);

  std::vector<base::Fd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(knock(door.name()));
    if (i % 2 == 0) {
      const std::string noise(static_cast<std::size_t>(1 + i), 'x');
      REQUIRE(::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0);
    }
  }
  const base::Fd got = fetch_fd(door.name(), secret, 5);
  struct stat a {
  }, b{};
  REQUIRE(::fstat(got.get(), &a) == 0);
  REQUIRE(::fstat(shared.get(), &b) == 0);
  CHECK(a.st_ino == b.st_ino);

  std::array<std::byte, 32> wrong = secret;
  wrong[0] = std::byte{1};
  CHECK_THROWS_WITH(fetch_fd(door.name(), wrong, 5), Catch::Contains("rank 5"));
  CHECK_NOTHROW(fetch_fd(door.name(), secret, 5));
}

TEST_CASE("a door that is closed says which rank cannot be reached") {
  DoorName name{};
  {
    const Door door(runtime::Engine::acquire(), 0, {});
    name = door.name();
  }
  CHECK_THROWS_WITH(fetch_fd(name, {}, 3), Catch::Contains("rank 3") && Catch::Contains("TUTTI_TRANSPORT=tcp"));
}

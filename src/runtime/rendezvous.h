// How the ranks of a job find each other.
//
//   1. One process opens a Meeting: a door at a known place (MASTER_PORT, a UniqueId, a name).
//   2. Rank 0 opens its own door, the centre of the control plane.
//   3. Every rank knocks at the meeting, at all of its addresses again and again until the deadline, and says Hello.
//   4. When all have come the meeting answers every one with the Roster: who is where, and where the centre's door is.
//      Two ranks of one number, different sizes or versions end the meeting with the same Error for all.
// Rounds: one message each way and rank; bytes: about 150 per rank, times the ranks for the roster.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/address.h"
#include "src/runtime/job.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/rendezvous_door.h"

namespace tutti::runtime {

inline constexpr std::uint16_t kWireVersion = 1;
inline constexpr const char* kLibraryVersion = "0.1.0";
inline constexpr int kMaxRanks = 65536;

// Which host a process is on, by tokens instead of names: equal boot ids mean one running kernel.
struct HostFacts {
  std::string name;  // for people
  std::string boot;
  std::uint64_t network_namespace = 0;  // abstract Unix names reach within one
  std::uint64_t pid_namespace = 0;      // pids mean the same within one
  static HostFacts of_this_process();
};

struct Member {
  int rank = 0;
  std::int32_t pid = 0;
  HostFacts host;
  std::string text() const;  // "rank 3 (pid 812 on host h)"
  bool same_process(const Member& other) const;
};

// Where a door is.
struct DoorAddress {
  std::string local_name;  // abstract Unix name
  std::uint16_t port = 0;
  std::vector<std::string> hosts;
};

struct Hello {
  std::uint16_t wire = kWireVersion;
  std::uint16_t byte_order = 0;
  std::string library;
  Nonce instance{};  // of this connect(): tells a second rank 3 from rank 3 that has come back
  std::string job;   // MeetingPoint::name
  std::uint32_t size = 0;
  Member member;
  DoorAddress centre;  // of rank 0 only
  Nonce session{};     // likewise

  static Hello of_this_process(int rank, int size, const std::string& job);
};
Bytes encode(const Hello& hello);
std::optional<Hello> decode_hello(const Bytes& bytes);

struct Roster {
  Nonce session{};
  DoorAddress centre;
  std::vector<Member> members;
};
Bytes encode(const Roster& roster);
std::optional<Roster> decode_roster(const Bytes& bytes);

// "5-7, 12"
std::string ranges(const std::vector<int>& ranks);

// Opens a meeting, which ends by itself: a moment after all ranks have been answered, 5 s after the last rank has given
// up, or after an hour in which no rank came. Until then it keeps the engine alive. `close` ends it early.
struct Meeting {
  static std::shared_ptr<Door> open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                    const std::string& job, const std::string& where);
};

// The name of the Unix socket of a meeting; the port (0: none) tells jobs apart that say nothing else of themselves.
std::string local_name(const Secret& secret, const std::string& job, std::uint16_t port);

// Calls at a door until it lets the caller in, or throws. `find` gives the addresses to try in each round.
struct Call {
  const Secret& secret;
  Purpose purpose = Purpose::meeting;
  Bytes hello;
  std::string caller;  // "rank 3"
  std::string where;   // "rank 0, which opens the meeting at 10.0.0.4:29500"
  std::function<std::vector<base::SocketAddress>(std::string& why)> find;
  std::string nobody;  // not empty: nobody listening is an error within a second, and this says what it means
  std::chrono::steady_clock::time_point deadline;
};
Channel knock(const Call& call);
// All addresses of all hosts; when there are none, `why` says so.
std::vector<base::SocketAddress> resolve_all(const std::vector<std::string>& hosts, std::uint16_t port,
                                             std::string& why);

// Steps 3 and 4 for one rank. `near` receives the address at which the meeting was reached.
Roster meet(const Job& job, const Hello& hello, std::chrono::steady_clock::time_point deadline, std::string& near);
// Where a job meets, for messages.
std::string place_of(const MeetingPoint& meeting);

}  // namespace tutti::runtime

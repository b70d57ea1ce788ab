// How connections come about: the listener, strangers and peers at the door, and this rank's own attempts to reach
// peers.
//
// The lower rank of a pair dials when the pair is first used; the higher one dials too if nothing has come after a
// moment, since the lower may not know yet that it is wanted, or only one direction may be open. They agree on one
// connection (see wire.h). Addresses are tried one after the other, round after round, with growing patience. An
// attempt that stands but is not answered is kept while further addresses are tried: a peer whose thread is busy
// elsewhere accepts late, which is no fault, and dialling anew would only fill its queue with dead connections.
//
// Time counts only while somebody looks: a rank that computes for minutes between two operations is not to find on its
// return that everything has timed out meanwhile.
//
// Strangers: each waiting connection has a deadline, their number is bounded (the oldest goes first), and none is
// waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/address.h"
#include "src/base/fd.h"
#include "transport/tcp/endpoints.h"
#include "transport/tcp/handshake.h"

namespace tutti::transport::tcp {

using Clock = std::chrono::steady_clock;

// What an epoll event is about: a tag and a number (an attempt's, or a peer's).
enum class Tag : std::uint32_t { listener, timer, guest, dial, link };
constexpr std::uint64_t event_key(Tag tag, std::uint32_t number) {
  return std::uint64_t{static_cast<std::uint32_t>(tag)} << 32 | number;
}

class Lobby {
 public:
  // Registers its descriptors with `epoll`. Listens on every address.
  Lobby(const Identity& self, int epoll, std::chrono::milliseconds connect_timeout);

  std::uint16_t port() const { return port_; }
  void set_candidates(int peer, std::vector<base::Address> addresses) { at(peer).addresses = std::move(addresses); }

  // Starts to connect to the peer, unless that is done or under way.
  void want(int peer);
  bool joined(int peer) const { return peers_[static_cast<std::size_t>(peer)].joined; }
  // True while anything here waits for a socket or for time to pass.
  bool busy() const { return dials_ > 0 || !guests_.empty(); }

  struct Joined {
    int peer;
    base::Fd socket;
    base::Address address;
  };
  // Call it before the events: the time since the last look, if it was long, counts for no deadline.
  void look(Clock::time_point now);
  // Handles one event; a connection when one has come about. Throws Error(system_error) when a wanted connection cannot
  // be accepted for want of descriptors.
  void on_event(Tag tag, std::uint32_t number);
  // What time alone brings about: next addresses, strangers whose time is over. Call it after the events.
  void on_time(Clock::time_point now);
  std::optional<Joined> next_joined();

  // Why the peer is not connected yet, as a sentence: which addresses were tried and how that went.
  std::string report(int peer) const;
  // True when the connect timeout has passed and no address shows a sign of life.
  bool hopeless(int peer, Clock::time_point now) const;
  // Stops trying; want() may start again.
  void give_up(int peer);

 private:
  struct Guest {  // accepted, not agreed on
    Handshake handshake;
    Clock::time_point deadline;
  };
  struct Attempt {
    Handshake handshake;
    std::size_t address;  // index
    Clock::time_point deadline;
  };
  struct Peer {
    std::vector<base::Address> addresses;
    std::vector<std::string> outcomes;  // of the last try of each address; empty: none yet
    bool joined = false;
    bool wanted = false;
    bool alive = false;      // in this round a TCP connection stood, though nobody may have answered on it yet
    bool was_alive = false;  // in the round before
    std::size_t next = 0;    // address
    int round = 0;
    Clock::time_point next_try, give_up_at;
    std::vector<Attempt> attempts;  // under way; at most one for each address

    const Attempt* attempt_at(std::size_t address) const;
  };

  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  void accept_guests();
  void dial(int peer, Clock::time_point now);
  void advance_dials(int peer);
  bool advance_dial(Peer& peer, Attempt& attempt);
  void end_late_dials(Peer& peer, Clock::time_point now);
  static bool expired(const Guest& guest, Clock::time_point now);
  static const char* outcome_of(const Attempt& unanswered);
  // True when the handshake has ended (joined or failed) and its owner is to be dropped.
  bool advance(Handshake& handshake);
  void watch(int socket, Tag tag, std::uint32_t number, std::uint32_t events) const;

  Identity self_;
  int epoll_;
  std::chrono::milliseconds connect_timeout_;
  base::Fd listener_;
  std::uint16_t port_ = 0;
  std::vector<Peer> peers_;
  int dials_ = 0;                          // wanted and not joined
  std::map<std::uint32_t, Guest> guests_;  // by number, so in order of arrival
  std::uint32_t next_guest_ = 0;
  std::vector<Joined> joined_;
  Clock::time_point looked_at_ = Clock::now();
};

}  // namespace tutti::transport::tcp

#include "transport/tcp/lobby.h"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"

namespace tutti::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kHigherWaits{100};     // for the lower rank's call, before the higher one dials
constexpr milliseconds kRoundPause{100};      // between rounds over a peer's addresses
constexpr milliseconds kFirstPatience{2000};  // before the next address is tried; doubles each round
constexpr int kMostDoublings = 5;
constexpr seconds kBusyTime{60};  // for an attempt that stands: the peer may be busy
constexpr seconds kGuestTime{5};
constexpr seconds kProvenTime{60};  // more: a proven peer is no stranger, it is only busy
constexpr milliseconds kAway{500};  // between two looks: nobody was waiting
constexpr std::size_t kMostStrangers = 64;
constexpr int kAcceptsPerCall = 32;

}  // namespace

Lobby::Lobby(const Identity& self, int epoll, milliseconds connect_timeout)
    : self_(self),
      epoll_(epoll),
      connect_timeout_(connect_timeout),
      listener_(base::listen_everywhere()),
      port_(base::local_address(listener_.get()).port),
      peers_(static_cast<std::size_t>(self.size)) {
  watch(listener_.get(), Tag::listener, 0, EPOLLIN);
}

void Lobby::watch(int socket, Tag tag, std::uint32_t number, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_key(tag, number);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0) base::throw_errno("cannot watch a socket");
}

void Lobby::want(int rank) {
  Peer& peer = at(rank);
  if (peer.joined || peer.wanted) return;
  const Clock::time_point now = Clock::now();
  look(now);
  peer.wanted = true;
  peer.alive = peer.was_alive = false;
  peer.next = 0;
  peer.round = 0;
  peer.outcomes.assign(peer.addresses.size(), "");
  peer.give_up_at = now + connect_timeout_;
  peer.next_try = self_.rank < rank ? now : now + kHigherWaits;
  ++dials_;
  if (self_.rank < rank) dial(rank, now);
}

void Lobby::give_up(int rank) {
  Peer& peer = at(rank);
  if (!peer.wanted) return;
  peer.wanted = false;
  peer.attempts.clear();
  --dials_;
}

void Lobby::on_event(Tag tag, std::uint32_t number) {
  if (tag == Tag::listener) accept_guests();
  if (tag == Tag::dial && number < peers_.size()) advance_dials(static_cast<int>(number));
  if (tag != Tag::guest) return;
  const auto guest = guests_.find(number);
  if (guest != guests_.end() && advance(guest->second.handshake)) guests_.erase(guest);
}

void Lobby::accept_guests() {
  for (int i = 0; i < kAcceptsPerCall; ++i) {
    base::Accepted accepted = base::accept_one(listener_.get());
    if (accepted.error != 0) {
      const std::string text =
          "cannot accept a connection on port " + std::to_string(port_) + ": " + base::errno_text(accepted.error);
      if (dials_ > 0) throw Error(ErrorCode::system_error, text);
      base::log(base::LogLevel::warn, text);  // nobody here needs the connection
    }
    if (!accepted.socket) return;
    if (guests_.size() >= kMostStrangers + peers_.size()) {
      const auto stranger = std::find_if(guests_.begin(), guests_.end(),
                                         [](const auto& guest) { return !guest.second.handshake.peer_proven(); });
      if (stranger != guests_.end()) guests_.erase(stranger);
    }
    const std::uint32_t number = next_guest_++;
    const int fd = accepted.socket.get();
    const auto [guest, added] = guests_.emplace(
        number, Guest{Handshake(self_, std::move(accepted.socket), Handshake::kAnyone), Clock::now() + kGuestTime});
    watch(fd, Tag::guest, number, EPOLLIN | EPOLLOUT | EPOLLET);
    if (advance(guest->second.handshake)) guests_.erase(guest);
  }
}

bool Lobby::advance(Handshake& handshake) {
  Handshake::State state = handshake.advance();
  if (state == Handshake::State::proven) {
    if (joined(handshake.peer())) return true;  // by another one; this one closes
    handshake.choose();
    state = handshake.advance();
  }
  if (state == Handshake::State::failed && base::log_enabled(base::LogLevel::debug))
    base::log(base::LogLevel::debug, "tcp: a connection was turned away: " + handshake.failure());
  if (state != Handshake::State::chosen) return state == Handshake::State::failed;
  const int rank = handshake.peer();
  Peer& peer = at(rank);
  if (peer.joined) return true;
  peer.joined = true;
  base::Fd socket = handshake.take();
  const base::Address address = base::remote_address(socket.get()).address();
  joined_.push_back({rank, std::move(socket), address});
  return true;
}

void Lobby::dial(int rank, Clock::time_point now) {
  Peer& peer = at(rank);
  while (peer.next < peer.addresses.size() && peer.attempt_at(peer.next) != nullptr) ++peer.next;
  if (peer.next >= peer.addresses.size()) {  // a round is over
    peer.next = 0;
    peer.next_try = now + kRoundPause;
    ++peer.round;
    peer.was_alive = std::exchange(peer.alive, false);
    return;
  }
  const milliseconds patience = kFirstPatience * (1 << std::min(peer.round, kMostDoublings));
  const std::size_t address = peer.next++;
  base::Connecting connecting = base::start_connect(peer.addresses[address]);
  if (!connecting.socket) {
    peer.outcomes[address] = base::errno_text(connecting.error);
    return;
  }
  watch(connecting.socket.get(), Tag::dial, static_cast<std::uint32_t>(rank), EPOLLIN | EPOLLOUT | EPOLLET);
  peer.attempts.push_back({Handshake(self_, std::move(connecting.socket), rank), address, now + patience});
  peer.next_try = now + patience;
}

void Lobby::advance_dials(int rank) {
  std::vector<Attempt>& attempts = at(rank).attempts;
  for (auto attempt = attempts.begin(); attempt != attempts.end();)
    attempt = advance_dial(at(rank), *attempt) ? attempts.erase(attempt) : attempt + 1;
}

// True when it is over.
bool Lobby::advance_dial(Peer& peer, Attempt& attempt) {
  const bool over = advance(attempt.handshake);
  const Clock::time_point now = Clock::now();
  if (attempt.handshake.peer_proven()) peer.give_up_at = std::max(peer.give_up_at, now + connect_timeout_);
  if (over) {
    peer.outcomes[attempt.address] = attempt.handshake.failure();
    peer.next_try = now;
  } else if (attempt.handshake.connected()) {
    attempt.deadline = std::max(attempt.deadline, now + kBusyTime);
    peer.alive = true;
  }
  return over;
}

void Lobby::end_late_dials(Peer& peer, Clock::time_point now) {
  std::erase_if(peer.attempts, [&](const Attempt& attempt) {
    peer.alive = peer.alive || attempt.handshake.connected();
    if (attempt.handshake.offered() || now <= attempt.deadline) return false;
    peer.outcomes[attempt.address] = outcome_of(attempt);
    peer.next_try = now;
    return true;
  });
}

const char* Lobby::outcome_of(const Attempt& unanswered) {
  return unanswered.handshake.connected() ? "connected, but nobody answered" : "no answer";
}

const Lobby::Attempt* Lobby::Peer::attempt_at(std::size_t address) const {
  const auto attempt =
      std::find_if(attempts.begin(), attempts.end(), [&](const Attempt& a) { return a.address == address; });
  return attempt == attempts.end() ? nullptr : &*attempt;
}

void Lobby::look(Clock::time_point now) {
  const Clock::duration away = now - looked_at_;
  looked_at_ = now;
  if (away <= kAway) return;
  for (auto& [number, guest] : guests_) guest.deadline += away;
  for (Peer& peer : peers_) {
    peer.give_up_at += away;
    peer.next_try += away;
    for (Attempt& attempt : peer.attempts) attempt.deadline += away;
  }
}

bool Lobby::expired(const Guest& guest, Clock::time_point now) {
  if (guest.handshake.offered()) return false;
  return now > guest.deadline + (guest.handshake.peer_proven() ? kProvenTime : seconds(0));
}

void Lobby::on_time(Clock::time_point now) {
  std::erase_if(guests_, [&](const auto& entry) {
    const Handshake& handshake = entry.second.handshake;
    return expired(entry.second, now) || (handshake.peer_proven() && joined(handshake.peer()));
  });
  if (dials_ == 0) return;
  for (int rank = 0; rank < self_.size; ++rank) {
    Peer& peer = at(rank);
    if (!peer.wanted) continue;
    if (peer.joined) {
      give_up(rank);
      continue;
    }
    end_late_dials(peer, now);
    if (now >= peer.next_try) dial(rank, now);
  }
}

std::optional<Lobby::Joined> Lobby::next_joined() {
  if (joined_.empty()) return std::nullopt;
  Joined joined = std::move(joined_.back());
  joined_.pop_back();
  return joined;
}

std::string Lobby::report(int rank) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  std::string tried;
  for (std::size_t i = 0; i < peer.addresses.size(); ++i) {
    const Attempt* under_way = peer.attempt_at(i);
    const std::string outcome = i < peer.outcomes.size() ? peer.outcomes[i] : "";
    if (!tried.empty()) tried += "; ";
    tried += base::to_string(peer.addresses[i]) + " (";
    tried += under_way != nullptr ? outcome_of(*under_way) : !outcome.empty() ? outcome : "not tried";
    tried += ')';
  }
  return "rank " + std::to_string(self_.rank) + " cannot reach rank " + std::to_string(rank) + " over TCP within " +
         std::to_string(connect_timeout_.count()) + " ms; " +
         (tried.empty() ? "it has no address that this host could use" : "tried " + tried) +
         "; check routes and firewalls, or choose the interface with TUTTI_SOCKET_IFNAME";
}

bool Lobby::hopeless(int rank, Clock::time_point now) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return peer.wanted && !peer.joined && !peer.alive && !peer.was_alive && now > peer.give_up_at;
}

}  // namespace tutti::transport::tcp

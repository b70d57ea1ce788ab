#include "transport/tcp/lobby.h"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"

namespace tutti::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kHigherWaits{100};     // for the lower rank's call, before the higher one dials
constexpr milliseconds kRoundPause{100};      // between rounds over a peer's addresses
constexpr milliseconds kFirstPatience{2000};  // for one address; doubles each round
constexpr int kMostDoublings = 5;
constexpr seconds kGuestTime{5};
constexpr seconds kProvenTime{60};  // a proven peer is no stranger: it is only busy
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
  peer.attempt.reset();
  --dials_;
}

void Lobby::on_event(Tag tag, std::uint32_t number) {
  if (tag == Tag::listener) accept_guests();
  if (tag == Tag::dial && number < peers_.size()) advance_dial(static_cast<int>(number));
  if (tag != Tag::guest) return;
  const auto guest = guests_.find(number);
  if (guest != guests_.end() && advance(guest->second.handshake)) guests_.erase(guest);
}

void Lobby::accept_guests() {
  for (int i = 0; i < kAcceptsPerCall; ++i) {
    base::Fd socket;
    try {
      socket = base::accept_one(listener_.get());
    } catch (const Error& error) {
      if (dials_ > 0) throw;  // otherwise nobody here needs the connection
      base::log(base::LogLevel::warn, error.what());
      return;
    }
    if (!socket) return;
    if (guests_.size() >= kMostStrangers + peers_.size()) guests_.erase(guests_.begin());
    const std::uint32_t number = next_guest_++;
    const int fd = socket.get();
    const auto [guest, added] = guests_.emplace(
        number, Guest{Handshake(self_, std::move(socket), Handshake::kAnyone), Clock::now() + kGuestTime});
    watch(fd, Tag::guest, number, EPOLLIN | EPOLLOUT | EPOLLET);
    if (advance(guest->second.handshake)) guests_.erase(guest);
  }
}

bool Lobby::advance(Handshake& handshake) {
  Handshake::State state = handshake.advance();
  if (state == Handshake::State::proven) {
    if (joined(handshake.peer())) return true;  // another one was chosen; this one closes
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
  const base::Address address = base::remote_address(socket.get());
  joined_.push_back({rank, std::move(socket), address});
  return true;
}

void Lobby::dial(int rank, Clock::time_point now) {
  Peer& peer = at(rank);
  if (peer.next >= peer.addresses.size()) {  // a round is over
    peer.next = 0;
    peer.next_try = now + kRoundPause;
    ++peer.round;
    peer.was_alive = std::exchange(peer.alive, false);
    return;
  }
  base::Connecting connecting = base::start_connect(peer.addresses[peer.next]);
  if (!connecting.socket) return end_dial(rank, base::errno_text(connecting.error));
  peer.attempt_deadline = now + kFirstPatience * (1 << std::min(peer.round, kMostDoublings));
  peer.attempt = std::make_unique<Handshake>(self_, std::move(connecting.socket), rank);
  watch(peer.attempt->socket(), Tag::dial, static_cast<std::uint32_t>(rank), EPOLLIN | EPOLLOUT | EPOLLET);
}

void Lobby::advance_dial(int rank) {
  Peer& peer = at(rank);
  if (!peer.attempt) return;
  if (!advance(*peer.attempt)) {
    if (peer.attempt->connected()) peer.alive = true;
    if (peer.attempt->peer_proven())
      peer.attempt_deadline = std::max(peer.attempt_deadline, Clock::now() + kProvenTime);
  } else {
    end_dial(rank, peer.attempt->failure());
  }
}

void Lobby::end_dial(int rank, const std::string& outcome) {
  Peer& peer = at(rank);
  peer.outcomes[peer.next++] = outcome;
  peer.attempt.reset();
  peer.next_try = Clock::now();
}

void Lobby::on_time(Clock::time_point now) {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const bool proven = guest->second.handshake.peer_proven();
    if (now > guest->second.deadline + (proven ? kProvenTime : seconds(0)))
      guest = guests_.erase(guest);
    else
      ++guest;
  }
  if (dials_ == 0) return;
  for (int rank = 0; rank < self_.size; ++rank) {
    Peer& peer = at(rank);
    if (!peer.wanted) continue;
    if (peer.joined) {
      give_up(rank);
    } else if (peer.attempt && now > peer.attempt_deadline) {
      end_dial(rank, peer.attempt->connected() ? "connected, but nobody answered" : "no answer");
    } else if (!peer.attempt && now >= peer.next_try) {
      dial(rank, now);
    }
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
    const bool under_way = peer.attempt && i == peer.next;
    const std::string outcome = i < peer.outcomes.size() ? peer.outcomes[i] : "";
    if (!tried.empty()) tried += "; ";
    tried += base::to_string(peer.addresses[i]) + " (";
    tried += !outcome.empty() ? outcome
             : !under_way     ? "not tried"
                              : (peer.attempt->connected() ? "connected, but nobody answered" : "no answer");
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

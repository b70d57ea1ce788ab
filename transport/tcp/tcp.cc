#include "transport/tcp/tcp.h"

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "transport/tcp/endpoints.h"
#include "transport/tcp/link.h"
#include "transport/tcp/lobby.h"

namespace tutti::transport {
namespace {

using namespace tcp;
using std::chrono::milliseconds;

constexpr char kFilterVariable[] = "TUTTI_SOCKET_IFNAME";
constexpr milliseconds kTick{50};      // while connecting
constexpr milliseconds kLinger{1000};  // at the end, for the peers' hosts to have all, unless flush() set a deadline
constexpr int kGoodbyeShare = 4;       // of the time that flush() may take, one part is left for the goodbyes
constexpr std::size_t kFewLinks = 2;   // these are read without asking epoll
constexpr int kQuiet = 64;             // looks without a find, after which only each kQuietStride-th call looks
constexpr unsigned kQuietStride = 8;
constexpr unsigned kSweepStride = 32;  // of the looks at few links, one also asks epoll, for strangers and newcomers

std::vector<base::Interface> usable_interfaces(const TcpOptions& options) {
  const std::vector<base::Interface> all = base::interfaces();
  if (options.interfaces) return base::filter_interfaces("the interface filter", *options.interfaces, all);
  if (const auto filter = base::env(kFilterVariable)) return base::filter_interfaces(kFilterVariable, *filter, all);
  return all;
}

int checked(int result, const char* what) {
  if (result < 0) base::throw_errno(what);
  return result;
}

class TcpTransport final : public runtime::Transport {
 public:
  explicit TcpTransport(const TcpOptions& options);
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  runtime::Blob address() const override { return encode(own_); }
  void set_peers(std::vector<runtime::Blob> addresses) override;
  std::optional<std::string> unreachable(int peer) override;
  void add_reader(runtime::PortId port, const runtime::Ring& ring, std::uint32_t reader, int peer,
                  bool acknowledged) override;
  std::optional<Incoming> find_ring(runtime::PortId port, int peer, std::uint32_t reader,
                                    const runtime::RingGeometry& geometry, bool acknowledged) override;
  int bell() const override { return epoll_.get(); }
  bool settle() override;
  bool progress() override;
  std::optional<Error> loss() const override;
  bool drained() const override;
  void forget_all_but(std::span<const runtime::PortId> kept) override;
  void flush(std::chrono::steady_clock::time_point deadline) override;

 private:
  Link& link(int peer);
  void reserve(runtime::PortId port, int peer, const runtime::RingGeometry& geometry);
  bool advance(bool patient);
  void sweep(bool patient);
  bool look_due();
  void join(Lobby::Joined joined);
  void keep_time(bool patient);
  void wait(milliseconds time) const;
  std::string unsent_peers() const;

  TcpOptions options_;
  std::vector<base::Interface> interfaces_;
  base::Fd epoll_, timer_;
  bool ticking_ = false;
  Lobby lobby_;
  Endpoints own_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null until the pair is used
  std::vector<Link*> connected_;
  std::size_t memory_used_ = 0;
  unsigned calls_ = 0, looks_ = 0;
  int quiet_ = 0;  // looks since something was found
  bool peers_known_ = false;
  std::optional<Clock::time_point> leave_by_;  // set by flush()
};

TcpTransport::TcpTransport(const TcpOptions& options)
    : options_(options),
      interfaces_(usable_interfaces(options)),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "cannot make an epoll descriptor")),
      timer_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "cannot make a timer")),
      lobby_({options.rank, options.size, options.communicator, options.secret}, epoll_.get(), options.connect_timeout),
      own_(own_endpoints(lobby_.port(), interfaces_)),
      links_(static_cast<std::size_t>(options.size)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = event_key(Tag::timer, 0);
  checked(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event), "cannot watch a timer");
}

// A peer that has not got the last messages, or this side's goodbye, is given a moment: closing a socket with bytes
// unread resets the connection and loses what is on its way to the peer.
TcpTransport::~TcpTransport() {
  try {
    const Clock::time_point deadline = leave_by_.value_or(Clock::now() + kLinger);
    const auto leave_all = [this] {
      bool all = true;
      for (Link* link : connected_) all = link->leave() && all;
      return all;
    };
    while (!leave_all() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  } catch (...) {  // nothing more can be done for that peer; its side reports the loss
  }
}

void TcpTransport::set_peers(std::vector<runtime::Blob> addresses) {
  if (addresses.size() != links_.size())
    throw Error(ErrorCode::internal_error, "set_peers got " + std::to_string(addresses.size()) + " addresses for " +
                                               std::to_string(links_.size()) + " ranks");
  for (int peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank) continue;
    const Endpoints endpoints = decode(addresses[static_cast<std::size_t>(peer)], peer);
    lobby_.set_candidates(peer, candidates(endpoints, own_, interfaces_));
  }
  peers_known_ = true;
}

Link& TcpTransport::link(int peer) {
  if (peer < 0 || peer >= options_.size || peer == options_.rank || !peers_known_)
    throw Error(ErrorCode::internal_error,
                "rank " + std::to_string(options_.rank) + " asked the TCP transport for rank " + std::to_string(peer) +
                    " of " + std::to_string(options_.size) + (peers_known_ ? "" : " before it knew the peers"));
  auto& link = links_[static_cast<std::size_t>(peer)];
  if (!link)
    link = std::make_unique<Link>(options_.rank, peer, options_.epoch,
                                  options_.memory_limit / static_cast<std::size_t>(options_.size));
  return *link;
}

std::optional<std::string> TcpTransport::unreachable(int peer) {
  link(peer);
  const Clock::time_point deadline = Clock::now() + options_.connect_timeout;
  lobby_.want(peer);
  while (!lobby_.joined(peer)) {
    if (Clock::now() > deadline) {
      std::string reason = lobby_.report(peer);
      lobby_.give_up(peer);
      return reason;
    }
    if (!advance(true)) wait(milliseconds(10));
  }
  return std::nullopt;
}

void TcpTransport::add_reader(runtime::PortId port, const runtime::Ring& ring, std::uint32_t reader, int peer,
                              bool acknowledged) {
  link(peer).sender().add_port(port, ring, reader, acknowledged);
  lobby_.want(peer);
}

std::optional<runtime::Transport::Incoming> TcpTransport::find_ring(runtime::PortId port, int peer,
                                                                    std::uint32_t reader,
                                                                    const runtime::RingGeometry& geometry,
                                                                    bool acknowledged) {
  Receiver& receiver = link(peer).receiver();
  if (const runtime::Ring* ring = receiver.find(port)) {
    if (ring->geometry != geometry)
      throw Error(ErrorCode::internal_error, "rank " + std::to_string(options_.rank) + " and rank " +
                                                 std::to_string(peer) + " disagree on the slots of a port");
    return Incoming{*ring, reader, receiver.window(port)};
  }
  reserve(port, peer, geometry);
  const runtime::Ring ring = receiver.claim(port, reader, geometry, acknowledged);
  const Incoming incoming{ring, reader, receiver.window(port)};
  lobby_.want(peer);
  return incoming;
}

void TcpTransport::reserve(runtime::PortId port, int peer, const runtime::RingGeometry& geometry) {
  // In two steps, so that no product overflows.
  const std::size_t room = options_.memory_limit - memory_used_;
  const bool sane =
      geometry.slots <= room / geometry.stride() && geometry.readers <= room / sizeof(runtime::ReaderLine);
  if (!sane || geometry.bytes() > room)
    throw Error(ErrorCode::system_error,
                "rank " + std::to_string(options_.rank) + " has no memory left for the messages of rank " +
                    std::to_string(peer) + " over TCP (port " + std::to_string(port) +
                    "): " + std::to_string(geometry.slots) + " slots of " + std::to_string(geometry.slot_bytes) +
                    " bytes are needed, " + base::format_bytes(room) + " of " +
                    base::format_bytes(options_.memory_limit) +
                    " are left; raise the communicator's memory limit or use smaller slots");
  memory_used_ += geometry.bytes();
}

bool TcpTransport::progress() { return advance(false); }

// After it has found nothing, every socket has been read to its end or written until it was full, and the epoll has
// reported all that happened before: what happens later makes it report, and so be readable, anew.
bool TcpTransport::settle() {
  quiet_ = 0;  // the first look after a sleep finds what has ended it
  sweep(false);
  bool moved = false;
  for (Link* link : connected_) moved = link->progress(false) || moved;
  return moved;
}

std::optional<Error> TcpTransport::loss() const {
  for (const Link* link : connected_)
    if (link->lost()) return Error(ErrorCode::remote_error, link->loss());
  return std::nullopt;
}

// `patient`: the caller itself keeps the connect timeout.
bool TcpTransport::advance(bool patient) {
  const bool look = look_due();
  bool direct = false;
  if (look) {
    direct = connected_.size() <= kFewLinks && !lobby_.busy() && looks_++ % kSweepStride != 0;
    for (const Link* link : connected_) direct = direct && !link->blocked();
    if (!direct) sweep(patient);
  }
  bool moved = false;
  for (Link* link : connected_) moved = link->progress(direct) || moved;
  if (look) quiet_ = moved ? 0 : std::min(quiet_ + 1, kQuiet);
  return moved;
}

// System calls are spared when nothing has come for a while: a call that only looks at the rings costs next to nothing.
bool TcpTransport::look_due() {
  ++calls_;
  return lobby_.busy() || (quiet_ < kQuiet && !connected_.empty()) || calls_ % kQuietStride == 0;
}

void TcpTransport::sweep(bool patient) {
  std::array<epoll_event, 64> events;
  lobby_.look(Clock::now());
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    const auto tag = static_cast<Tag>(key >> 32);
    const auto number = static_cast<std::uint32_t>(key);
    if (tag == Tag::link) {
      links_[number]->woken((events[static_cast<std::size_t>(i)].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    } else if (tag == Tag::timer) {
      std::uint64_t ticks = 0;
      [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &ticks, sizeof(ticks));
    } else {
      lobby_.on_event(tag, number);
    }
  }
  keep_time(patient);
  while (auto joined = lobby_.next_joined()) join(std::move(*joined));
}

void TcpTransport::keep_time(bool patient) {
  if (lobby_.busy() != ticking_) {
    ticking_ = lobby_.busy();
    itimerspec spec{};
    if (ticking_) spec.it_interval.tv_nsec = spec.it_value.tv_nsec = std::chrono::nanoseconds(kTick).count();
    ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }
  if (!ticking_) return;
  const Clock::time_point now = Clock::now();
  lobby_.on_time(now);
  if (patient) return;
  for (int peer = 0; peer < options_.size; ++peer)
    if (lobby_.hopeless(peer, now)) throw Error(ErrorCode::remote_error, lobby_.report(peer));
}

void TcpTransport::join(Lobby::Joined joined) {
  Link& peer = link(joined.peer);
  const int socket = joined.socket.get();
  peer.attach(std::move(joined.socket), joined.address);
  connected_.push_back(&peer);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = event_key(Tag::link, static_cast<std::uint32_t>(joined.peer));
  checked(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event), "cannot watch a connection");
}

void TcpTransport::wait(milliseconds time) const { base::wait_ready(epoll_.get(), POLLIN, Clock::now() + time); }

std::string TcpTransport::unsent_peers() const {
  std::string peers;
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (!links_[peer] || !links_[peer]->unsent()) continue;
    if (!peers.empty()) peers += ", ";
    peers += std::to_string(peer);
  }
  return peers;
}

bool TcpTransport::drained() const {
  return std::none_of(links_.begin(), links_.end(), [](const auto& link) { return link && link->sender().pending(); });
}

void TcpTransport::forget_all_but(std::span<const runtime::PortId> kept) {
  for (const auto& link : links_) {
    if (!link) continue;
    link->sender().forget_all_but(kept);
    memory_used_ -= link->receiver().forget_all_but(kept);
  }
}

// Also waits for the peers' hosts to have everything, so that the sockets can be closed without loss.
void TcpTransport::flush(Clock::time_point deadline) {
  leave_by_ = deadline;
  const Clock::time_point now = Clock::now();
  const Clock::duration share = std::max(Clock::duration::zero(), (deadline - now) / kGoodbyeShare);
  const Clock::time_point end = deadline - std::min<Clock::duration>(kLinger, share);
  const std::string complaint =
      "rank " + std::to_string(options_.rank) + " could not send its last messages over TCP: ";
  for (std::string peers = unsent_peers(); !peers.empty(); peers = unsent_peers()) {
    if (Clock::now() > end) return base::log(base::LogLevel::warn, complaint + "not taken in time by rank " + peers);
    try {
      if (!advance(false)) wait(milliseconds(1));
    } catch (const Error& error) {
      base::log(base::LogLevel::warn, complaint + error.what());
      if (std::erase_if(connected_, [](const Link* link) { return link->lost(); }) == 0) return;
    }
  }
}

}  // namespace

std::unique_ptr<runtime::Transport> make_tcp_transport(const TcpOptions& options) {
  if (::sodium_init() < 0) throw Error(ErrorCode::system_error, "libsodium cannot be initialised");
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(options.rank) + " of " +
                                                 std::to_string(options.size) + " ranks; valid: 0 to size - 1");
  return std::make_unique<TcpTransport>(options);
}

}  // namespace tutti::transport

#include "src/runtime/rendezvous_door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/runtime/wire_socket.h"

namespace tutti::runtime {
namespace {
constexpr std::chrono::milliseconds kExpireEvery{250};
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
}  // namespace

std::shared_ptr<Door> Door::open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                 Purpose purpose, OnGuest on_guest) {
  auto door = std::make_shared<Door>();
  door->engine_ = std::move(engine);
  door->tcp_ = std::move(tcp);
  door->local_ = std::move(local);
  door->secret_ = secret;
  door->purpose_ = purpose;
  door->on_guest_ = std::move(on_guest);
  for (const base::Fd* listener : {&door->tcp_, &door->local_})
    if (*listener)
      door->engine_->watch(listener->get(), EPOLLIN,
                           [door, fd = listener->get()](std::uint32_t) { door->accept_all(fd); });
  return door;
}

void Door::close() {
  if (!engine_) return;
  const auto engine = engine_;
  engine->post([self = shared_from_this()] {
    if (!self->engine_) return;
    for (base::Fd* listener : {&self->tcp_, &self->local_}) {
      if (*listener) self->engine_->unwatch(listener->get());
      listener->reset();
    }
    for (const auto& [number, stranger] : self->strangers_) self->engine_->unwatch(stranger.channel.fd());
    self->strangers_.clear();
    // on_guest may be what is running now, and the engine may end with its last user: both go after this task.
    self->engine_->after(std::chrono::milliseconds(0), [self] {
      self->on_guest_ = nullptr;
      self->engine_.reset();
    });
  });
}

void Door::accept_all(int listener) {
  for (int batch = 0; batch < 64; ++batch) {  // then others have their turn; epoll calls again
    base::Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      admit(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (strangers_.empty()) return pause(listener);
      drop(strangers_.begin(), "this process is out of descriptors");
      continue;
    }
    return;
  }
}

void Door::pause(int listener) {
  base::log(base::LogLevel::warn, "cannot accept connections: " + base::errno_text() + "; trying again");
  engine_->rewatch(listener, 0);
  engine_->after(kPauseWithoutDescriptors, [self = shared_from_this(), listener] {
    if (self->engine_ && (self->tcp_.get() == listener || self->local_.get() == listener))
      self->engine_->rewatch(listener, EPOLLIN);
  });
}

void Door::admit(base::Fd fd) {
  if (strangers_.size() >= kStrangers) drop(strangers_.begin(), "too many unproven connections");
  tune(fd.get());
  const std::uint64_t number = arrivals_++;
  Stranger& stranger = strangers_[number];
  stranger.from = peer_of(fd.get());
  stranger.channel = Channel(std::move(fd), kStrangerLimit);
  stranger.until = std::chrono::steady_clock::now() + kPatience;
  engine_->watch(stranger.channel.fd(), EPOLLIN,
                 [self = shared_from_this(), number](std::uint32_t) { self->serve(number); });
  if (!expiring_) {
    expiring_ = true;
    engine_->after(kExpireEvery, [self = shared_from_this()] { self->expire(); });
  }
}

void Door::serve(std::uint64_t number) {
  const auto stranger = strangers_.find(number);
  if (stranger == strangers_.end()) return;
  if (stranger->second.channel.receive())
    advance(stranger);
  else
    drop(stranger, stranger->second.channel.end());
}

void Door::advance(Strangers::iterator stranger) {
  Stranger& s = stranger->second;
  const auto frame = s.channel.next();
  if (!frame) {
    if (s.channel.broken()) drop(stranger, "it does not speak this protocol");
    return;
  }
  if (!s.challenged) {
    const auto caller = read_greeting(*frame, purpose_);
    if (!caller) return drop(stranger, "it does not speak this protocol");
    s.challenged = true;
    s.caller = *caller;
    s.door = random_nonce();
    s.channel.set_limit(kHelloLimit);
    if (!s.channel.send(kChallenge, challenge(secret_, purpose_, s.caller, s.door))) drop(stranger, s.channel.end());
    return;
  }
  Guest guest;
  const Verdict verdict = read_proof(*frame, secret_, purpose_, s.caller, s.door, guest.hello);
  if (verdict == Verdict::garbage) return drop(stranger, "it does not speak this protocol");
  if (verdict == Verdict::wrong_secret) {
    s.channel.send(kRefusal, refusal({ErrorCode::invalid_argument, false, "the secret does not match"}));
    return drop(stranger, "its secret does not match");
  }
  engine_->unwatch(s.channel.fd());
  guest.channel = std::move(s.channel);
  guest.from = std::move(s.from);
  strangers_.erase(stranger);
  const OnGuest on_guest = on_guest_;
  if (on_guest) on_guest(*this, std::move(guest));
}

void Door::drop(Strangers::iterator stranger, const std::string& why) {
  if (base::log_enabled(base::LogLevel::info))
    base::log(base::LogLevel::info, "dropped a connection from " + stranger->second.from + ": " + why);
  engine_->unwatch(stranger->second.channel.fd());
  strangers_.erase(stranger);
}

void Door::expire() {
  const auto now = std::chrono::steady_clock::now();
  while (!strangers_.empty() && strangers_.begin()->second.until <= now)
    drop(strangers_.begin(), "it did not prove in time that it belongs to the job");
  expiring_ = !strangers_.empty();
  if (expiring_) engine_->after(kExpireEvery, [self = shared_from_this()] { self->expire(); });
}

}  // namespace tutti::runtime

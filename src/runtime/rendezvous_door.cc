#include "src/runtime/rendezvous_door.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <future>
#include <utility>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"

namespace tutti::runtime {
namespace {
constexpr std::chrono::milliseconds kExpireEvery{250};
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
}  // namespace

std::shared_ptr<Door> Door::open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                 Purpose purpose, OnGuest on_guest, OnStarved on_starved) {
  auto door = std::make_shared<Door>();
  door->engine_ = std::move(engine);
  door->tcp_ = std::move(tcp);
  door->local_ = std::move(local);
  door->secret_ = secret;
  door->purpose_ = purpose;
  door->on_guest_ = std::move(on_guest);
  door->on_starved_ = std::move(on_starved);
  door->keep_spare();
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
    self->spare_.reset();
    // on_guest may be what is running now, and the engine may end with its last user: both go after this task.
    self->engine_->after(std::chrono::milliseconds(0), [self] {
      self->on_guest_ = nullptr;
      self->on_starved_ = nullptr;
      self->engine_.reset();
    });
  });
}

void Door::close_and_wait() {
  const auto engine = engine_;
  if (!engine || !engine->alive()) return;
  close();
  const auto closed = std::make_shared<std::promise<void>>();
  // Behind the task with which close() ends, so that the engine is the caller's again.
  engine->post([&engine, closed] { engine->after(std::chrono::milliseconds(0), [closed] { closed->set_value(); }); });
  closed->get_future().wait();
}

void Door::accept_all(int listener) {
  for (int batch = 0; batch < 64; ++batch) {  // then others have their turn; epoll calls again
    base::Accepted accepted = base::accept_one(listener);
    if (accepted.socket) {
      admit(std::move(accepted.socket));
    } else if (accepted.error == 0) {
      if (!failing_) starved_.reset();
      return;
    } else if (!make_room(accepted.error)) {
      return pause(listener);
    }
  }
}

// True when there is room for one more connection, by the loss of an old stranger or of the spare descriptor.
bool Door::make_room(int error) {
  const auto now = std::chrono::steady_clock::now();
  const std::string why = "cannot accept connections: " + base::errno_text(error);
  // A young stranger may be a caller about to prove itself.
  if (!strangers_.empty() && now - strangers_.begin()->second.since >= kPauseWithoutDescriptors) {
    drop(strangers_.begin(), why);
    return true;
  }
  if (!starved_) {
    base::log(base::LogLevel::warn, why + "; trying again");
    starved_ = now;
  }
  if (!on_starved_ || now - *starved_ < kStarvation) return false;
  if (!std::exchange(failing_, true)) on_starved_(*this, why);
  return static_cast<bool>(std::exchange(spare_, base::Fd()));
}

void Door::keep_spare() {
  if (!on_starved_ || spare_) return;
  spare_ = base::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const base::Fd* listener : {&tcp_, &local_})
    if (failing_ && *listener) engine_->rewatch(listener->get(), EPOLLIN);  // the next one can be told
}

// Epoll would report the queue at once again and again.
void Door::pause(int listener) {
  engine_->rewatch(listener, 0);
  engine_->after(kPauseWithoutDescriptors, [self = shared_from_this(), listener] {
    if (self->engine_ && (self->tcp_.get() == listener || self->local_.get() == listener))
      self->engine_->rewatch(listener, EPOLLIN);
  });
}

void Door::admit(base::Fd fd) {
  if (strangers_.size() >= kStrangers) drop(strangers_.begin(), "too many unproven connections");
  base::tune_for_control(fd.get());
  const std::uint64_t number = arrivals_++;
  Stranger& stranger = strangers_[number];
  stranger.from = base::remote_address(fd.get()).text();
  stranger.channel = Channel(std::move(fd), kStrangerLimit);
  stranger.since = std::chrono::steady_clock::now();
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
  keep_spare();
}

void Door::drop(Strangers::iterator stranger, const std::string& why) {
  if (base::log_enabled(base::LogLevel::info))
    base::log(base::LogLevel::info, "dropped a connection from " + stranger->second.from + ": " + why);
  engine_->unwatch(stranger->second.channel.fd());
  strangers_.erase(stranger);
  keep_spare();
}

void Door::expire() {
  const auto now = std::chrono::steady_clock::now();
  while (!strangers_.empty() && now - strangers_.begin()->second.since >= kPatience)
    drop(strangers_.begin(), "it did not prove in time that it belongs to the job");
  expiring_ = !strangers_.empty();
  if (expiring_) engine_->after(kExpireEvery, [self = shared_from_this()] { self->expire(); });
}

}  // namespace tutti::runtime

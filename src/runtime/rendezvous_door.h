// A door: listening sockets behind which only callers who know the secret get. It is served by the engine's thread.
//
// Strangers (scanners, garbage, silent and half-open connections, any number of them) are dropped with at most one log
// line each, after kPatience at the latest, and hold up nobody: each connection is served when its bytes come, and of
// more than kStrangers unproven ones the oldest goes.
//
// A door that can accept nobody, for want of descriptors, tells its owner after kStarvation. From then on it lets
// callers in one after the other, by a descriptor that it has kept for this, so that the owner can tell them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {

class Door : public std::enable_shared_from_this<Door> {
 public:
  static constexpr std::size_t kStrangers = 256;
  static constexpr std::chrono::milliseconds kPatience{5000};
  static constexpr std::chrono::milliseconds kStarvation{1000};

  struct Guest {
    Channel channel;
    Bytes hello;
    std::string from;  // the address it came from
  };
  // Both are called on the engine's thread. `why` is the system's reason, with what to do about it.
  using OnGuest = std::function<void(Door&, Guest)>;
  using OnStarved = std::function<void(Door&, const std::string& why)>;

  // Either listener may be empty. Without on_starved the door keeps trying; on_starved is called
  // at most once and does not close the door before it returns.
  static std::shared_ptr<Door> open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                    Purpose purpose, OnGuest on_guest, OnStarved on_starved = {});
  // From any thread, soon: stops listening, drops the strangers and lets go of the callbacks. For good.
  void close();
  // The same at once: no callback runs after it. Not from a callback.
  void close_and_wait();

 private:
  struct Stranger {
    Channel channel;
    std::string from;
    std::chrono::steady_clock::time_point since;
    bool challenged = false;
    Nonce caller{}, door{};
  };
  using Strangers = std::map<std::uint64_t, Stranger>;  // by order of arrival

  void accept_all(int listener);
  void admit(base::Fd fd);
  void serve(std::uint64_t number);
  void advance(Strangers::iterator stranger);
  void drop(Strangers::iterator stranger, const std::string& why);
  void expire();
  bool make_room(int error);
  void keep_spare();
  void pause(int listener);

  std::shared_ptr<Engine> engine_;
  base::Fd tcp_, local_;
  Secret secret_{};
  Purpose purpose_ = Purpose::meeting;
  OnGuest on_guest_;
  OnStarved on_starved_;
  std::optional<std::chrono::steady_clock::time_point> starved_;  // since then nobody could be accepted
  bool failing_ = false;                                          // on_starved_ has been called
  base::Fd spare_;
  Strangers strangers_;
  std::uint64_t arrivals_ = 0;
  bool expiring_ = false;
};

}  // namespace tutti::runtime

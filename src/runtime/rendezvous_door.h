// A door: listening sockets behind which only callers who know the secret get. It is served by the engine's thread.
//
// Strangers (scanners, garbage, silent and half-open connections, any number of them) are dropped with at most one log
// line each, after kPatience at the latest, and hold up nobody: each connection is served when its bytes come, and of
// more than kStrangers unproven ones the oldest goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {

class Door : public std::enable_shared_from_this<Door> {
 public:
  static constexpr std::size_t kStrangers = 256;
  static constexpr std::chrono::milliseconds kPatience{5000};

  struct Guest {
    Channel channel;
    Bytes hello;
    std::string from;  // the address it came from
  };
  using OnGuest = std::function<void(Door&, Guest)>;  // on the engine's thread

  // Either listener may be empty.
  static std::shared_ptr<Door> open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                    Purpose purpose, OnGuest on_guest);
  // From any thread, soon: stops listening, drops the strangers and lets go of on_guest. For good.
  void close();

 private:
  struct Stranger {
    Channel channel;
    std::string from;
    std::chrono::steady_clock::time_point until;
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
  void pause(int listener);

  std::shared_ptr<Engine> engine_;
  base::Fd tcp_, local_;
  Secret secret_{};
  Purpose purpose_ = Purpose::meeting;
  OnGuest on_guest_;
  Strangers strangers_;
  std::uint64_t arrivals_ = 0;
  bool expiring_ = false;
};

}  // namespace tutti::runtime

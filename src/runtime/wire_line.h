// A connection served by the engine: frames in, frames out, one call when it ends.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/runtime/engine.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {

// All members are called on the engine's thread, and so are the callbacks. A line lives until it ends or is closed,
// then it lets go of its callbacks (and of what they own).
class Line : public std::enable_shared_from_this<Line> {
 public:
  using OnFrame = std::function<void(const Frame&)>;
  using OnEnd = std::function<void(const std::string& why)>;

  static std::shared_ptr<Line> start(std::shared_ptr<Engine> engine, Channel channel, OnFrame on_frame, OnEnd on_end);

  void send(std::uint8_t type, std::span<const std::byte> payload);
  void finish();  // ends the output once all is sent; the input goes on
  void close();   // at once; on_end is not called
  bool open() const { return static_cast<bool>(channel_); }

 private:
  void serve(std::uint32_t events);
  void end(const std::string& why);
  void update_interest();

  std::shared_ptr<Engine> engine_;
  Channel channel_;
  OnFrame on_frame_;
  OnEnd on_end_;
  bool finishing_ = false;
  bool finished_ = false;
  bool wants_output_ = false;
};

}  // namespace tutti::runtime

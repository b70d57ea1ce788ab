#include "src/runtime/wire_line.h"

#include <sys/epoll.h>

namespace tutti::runtime {

std::shared_ptr<Line> Line::start(std::shared_ptr<Engine> engine, Channel channel, OnFrame on_frame, OnEnd on_end) {
  auto line = std::make_shared<Line>();
  line->engine_ = std::move(engine);
  line->channel_ = std::move(channel);
  line->on_frame_ = std::move(on_frame);
  line->on_end_ = std::move(on_end);
  line->engine_->watch(line->channel_.fd(), EPOLLIN, [line](std::uint32_t events) { line->serve(events); });
  // Frames may have come together with the handshake; epoll does not report those.
  line->engine_->after(std::chrono::milliseconds(0), [line] {
    if (line->open()) line->serve(EPOLLIN);
  });
  return line;
}

void Line::serve(std::uint32_t events) {
  const auto self = shared_from_this();
  if (events & EPOLLOUT) {
    if (!channel_.flush()) return end(channel_.end());
    update_interest();
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  const bool more = channel_.receive();
  while (open()) {
    const auto frame = channel_.next();
    if (!frame) break;
    on_frame_(*frame);
  }
  if (open() && (!more || channel_.broken())) end(channel_.end());
}

void Line::send(std::uint8_t type, std::span<const std::byte> payload) {
  // A lost connection is found again, and reported, by the next read: frames that came before it are taken first.
  if (!open() || finishing_) return;
  if (channel_.send(type, payload)) return update_interest();
  if (!channel_.overfull()) return;
  // Not from within the caller's loop over lines, say.
  engine_->after(std::chrono::milliseconds(0), [self = shared_from_this()] {
    if (self->open()) self->end(self->channel_.end());
  });
}

void Line::finish() {
  finishing_ = true;
  if (open()) update_interest();
}

void Line::update_interest() {
  const bool unsent = channel_.unsent();
  if (unsent != wants_output_) engine_->rewatch(channel_.fd(), unsent ? EPOLLIN | EPOLLOUT : EPOLLIN);
  wants_output_ = unsent;
  if (finishing_ && !finished_ && !unsent) {
    finished_ = true;
    channel_.finish();
  }
}

void Line::close() {
  if (!open()) return;
  const auto self = shared_from_this();
  engine_->unwatch(channel_.fd());
  channel_.close();
  // The callback that is running may be one of these: let go of them after it.
  engine_->after(std::chrono::milliseconds(0), [self] {
    self->on_frame_ = nullptr;
    self->on_end_ = nullptr;
    self->engine_.reset();
  });
}

void Line::end(const std::string& why) {
  const auto on_end = on_end_;
  close();
  if (on_end) on_end(why);
}

}  // namespace tutti::runtime

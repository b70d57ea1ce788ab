#include "transport/tcp/receiver.h"

#include <algorithm>
#include <cstring>

#include "src/base/socket.h"
#include "transport/tcp/sender.h"
#include "tutti/error.h"

namespace tutti::transport::tcp {

using base::Transfer;
using runtime::Ring;

void Receiver::reject(const std::string& what) const { throw Error(ErrorCode::remote_error, complaint_ + ": " + what); }

const Ring* Receiver::find(runtime::PortId id) const {
  const auto number = known_.find(id);
  return number == known_.end() ? nullptr : &ports_[number->second].ring;
}

runtime::ReadWindow* Receiver::window(runtime::PortId id) const {
  const Port& port = ports_[known_.at(id)];
  return port.acknowledged ? port.window.get() : nullptr;
}

Receiver::Port& Receiver::make_port(runtime::PortId id, std::uint32_t reader, const runtime::RingGeometry& geometry,
                                    bool acknowledged) {
  void* memory = ::operator new (geometry.bytes(), std::align_val_t{runtime::kReaderLine});
  std::memset(memory, 0, geometry.bytes());
  Port port{.id = id,
            .memory = std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(memory)),
            .ring = {static_cast<std::byte*>(memory), geometry},
            .reader = reader,
            .acknowledged = acknowledged};
  const auto free = std::find_if(ports_.begin(), ports_.end(), [](const Port& p) { return p.memory == nullptr; });
  const auto number = static_cast<std::size_t>(free - ports_.begin());
  if (free == ports_.end()) ports_.emplace_back();
  ports_[number] = std::move(port);
  known_.emplace(id, number);
  return ports_[number];
}

Ring Receiver::claim(runtime::PortId id, std::uint32_t reader, const runtime::RingGeometry& geometry,
                     bool acknowledged) {
  Port& port = make_port(id, reader, geometry, acknowledged);
  if (runtime::lasts(id)) return port.ring;  // the writer says when it has the port
  const auto free = std::find(claimed_.begin(), claimed_.end(), kForgotten);
  port.number = static_cast<std::uint32_t>(free - claimed_.begin());
  if (free == claimed_.end()) claimed_.emplace_back();
  claimed_[port.number] = known_.at(id);
  ++untold_;
  return port.ring;
}

// The peer has made a lasting port, for which this rank may have asked already.
std::string Receiver::on_open(const Frame& frame) {
  const auto& offer = frame.claim;
  const runtime::RingGeometry geometry{offer.readers, offer.slots, offer.slot_bytes};
  if (!runtime::lasts(offer.id) || frame.port != opened_.size() || geometry.readers == 0 ||
      geometry.readers > open_limit_ / sizeof(runtime::ReaderLine) || offer.reader >= geometry.readers ||
      geometry.slots == 0 || geometry.slot_bytes % 64 != 0 || geometry.slots > open_limit_ / geometry.stride() ||
      geometry.bytes() > open_limit_)
    return "it opened port " + std::to_string(offer.id) + " as number " + std::to_string(frame.port) + " with " +
           std::to_string(geometry.slots) + " slots of " + std::to_string(geometry.slot_bytes) + " bytes";
  open_limit_ -= geometry.bytes();
  if (!known_.contains(offer.id)) make_port(offer.id, offer.reader, geometry, frame.acknowledged != 0);
  opened_.push_back(known_.at(offer.id));
  Port& port = ports_[opened_.back()];
  if (port.told || port.ring.geometry != geometry || port.reader != offer.reader ||
      port.acknowledged != (frame.acknowledged != 0))
    return "it opened port " + std::to_string(offer.id) + " again, or with other slots than this rank expects";
  port.told = true;
  port.number = kOpened | frame.port;
  return {};
}

// Null for a number that the peer cannot know.
Receiver::Port* Receiver::port_of(std::uint32_t number) {
  if ((number & kOpened) != 0)
    return (number & ~kOpened) < opened_.size() ? &ports_[opened_[number & ~kOpened]] : nullptr;
  if (number >= claimed_.size() || claimed_[number] == kForgotten) return nullptr;
  Port& port = ports_[claimed_[number]];
  return port.told ? &port : nullptr;
}

std::size_t Receiver::forget_all_but(std::span<const runtime::PortId> kept) {
  std::size_t bytes = 0;
  for (Port& port : ports_) {
    if (port.memory == nullptr || runtime::lasts(port.id) || std::find(kept.begin(), kept.end(), port.id) != kept.end())
      continue;
    const auto* slot = reinterpret_cast<const std::byte*>(slot_);
    if (slot != nullptr && slot >= port.memory.get() && slot < port.memory.get() + port.ring.geometry.bytes())
      throw Error(ErrorCode::internal_error, complaint_ + ": a ring was let go while a message was coming in");
    bytes += port.ring.geometry.bytes();
    if (!port.told) --untold_;
    known_.erase(port.id);
    claimed_[port.number] = kForgotten;
    port = {};
  }
  return bytes;
}

Receiver::Result Receiver::receive(int socket, Sender& sender, bool& moved, int& error) {
  for (int i = 0; i < kReadsPerCall; ++i) {
    // The rest of the message goes straight into its slot; what comes after it, into the staging buffer.
    std::array<iovec, 2> pieces;
    std::size_t used = 0;
    if (missing_ > 0) pieces[used++] = {payload_, missing_};
    pieces[used++] = {staging_.data() + end_, kStaging - end_};
    const Transfer transfer = base::receive(socket, pieces.data(), used);
    if (transfer.state == Transfer::State::would_block) return Result::drained;
    if (transfer.state == Transfer::State::closed) return Result::closed;
    if (transfer.state == Transfer::State::failed) {
      error = transfer.error;
      return Result::failed;
    }
    moved = heard_ = true;
    const bool all = transfer.bytes == missing_ + kStaging - end_;
    const std::size_t direct = std::min(missing_, transfer.bytes);
    payload_ += direct;
    missing_ -= direct;
    end_ += transfer.bytes - direct;
    parse(sender);
    if (!all) return Result::drained;  // fewer bytes than asked for: the socket was empty
  }
  return Result::more;
}

// Consumes the staging buffer as far as whole frame headers and payload bytes go, and moves the rest to its front.
void Receiver::parse(Sender& sender) {
  for (;;) {
    if (slot_ != nullptr) take_payload();
    if (slot_ != nullptr || end_ - begin_ < sizeof(Frame)) break;
    Frame frame;
    std::memcpy(&frame, staging_.data() + begin_, sizeof(Frame));
    begin_ += sizeof(Frame);
    handle(frame, sender);
  }
  std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

void Receiver::take_payload() {
  const std::size_t count = std::min(missing_, end_ - begin_);
  std::memcpy(payload_, staging_.data() + begin_, count);
  payload_ += count;
  missing_ -= count;
  begin_ += count;
  if (missing_ == 0) publish();
}

void Receiver::handle(const Frame& frame, Sender& sender) {
  if (left_) reject("it sent something after its goodbye");
  const bool describes = frame.kind == FrameKind::claim || frame.kind == FrameKind::open;
  if (frame.zero != 0 || frame.acknowledged > (describes ? 1 : 0)) reject("it sent a malformed frame");
  std::string fault;
  switch (frame.kind) {
    case FrameKind::claim: fault = sender.on_claim(frame); break;
    case FrameKind::data: begin_message(frame); break;
    case FrameKind::credit: fault = sender.on_credit(frame); break;
    case FrameKind::goodbye: left_ = true; break;
    case FrameKind::open: fault = on_open(frame); break;
    default: fault = "it sent a frame of unknown kind " + std::to_string(static_cast<int>(frame.kind));
  }
  if (!fault.empty()) reject(fault);
}

void Receiver::begin_message(const Frame& frame) {
  const auto& data = frame.data;
  Port* const known = port_of(frame.port);
  if (known == nullptr)
    reject("it sent a message of port number " + std::to_string(frame.port) + ", which is not known to it");
  Port& port = *known;
  const auto of_port = [&] { return " of port " + std::to_string(port.id); };
  if (data.stamp != runtime::stamp_of(epoch_, port.next) || data.zero != 0)
    reject("it sent a message with stamp " + std::to_string(data.stamp) + of_port() + " where message " +
           std::to_string(port.next) + " was due");
  if (data.bytes > std::max<std::size_t>(port.ring.geometry.slot_bytes, runtime::kInlineBytes))
    reject("it sent a message of " + std::to_string(data.bytes) + " bytes" + of_port() + ", whose slots have " +
           std::to_string(port.ring.geometry.slot_bytes));
  if (port.acknowledged && port.next >= port.released() + port.ring.geometry.slots)
    reject("it sent message " + std::to_string(port.next) + of_port() + " without credit");
  slot_ = &port.ring.slot(port.next++);
  stamp_ = data.stamp;
  missing_ = data.bytes;
  payload_ = Ring::payload(*slot_, missing_);
  slot_->size = data.bytes;
  slot_->fingerprint = data.fingerprint;
}

void Receiver::publish() {
  slot_->stamp.store(stamp_, std::memory_order_release);  // after header and payload, for the reader's acquire load
  slot_ = nullptr;
}

bool Receiver::next_claim(Frame& frame) {
  if (untold_ == 0) return false;
  // The numbers of ports that the peer hears of for the first time come in order.
  const auto claimed = std::find_if(claimed_.begin(), claimed_.end(),
                                    [this](std::size_t index) { return index != kForgotten && !ports_[index].told; });
  Port* const port = &ports_[*claimed];
  const runtime::RingGeometry& geometry = port->ring.geometry;
  frame.port = port->number;
  frame.acknowledged = port->acknowledged;
  frame.claim = {port->id, port->reader, geometry.readers, geometry.slots, geometry.slot_bytes};
  port->told = true;
  --untold_;
  return true;
}

bool Receiver::next_credit(Frame& frame) {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if (++turn_ >= ports_.size()) turn_ = 0;
    Port& port = ports_[turn_];
    if (!port.acknowledged || !port.told) continue;
    // Half a ring at a time. The writer never waits for less: when it has no credit, either half a ring is released and
    // told (at the latest when this rank enters the operation), or more than half a ring is here to be released.
    std::uint64_t released = std::min(port.released(), port.next);
    // What the writer may send without further credit is all of this operation: it may have ended (see ReadWindow).
    const bool enough = port.credited + port.ring.geometry.slots >= port.window->end;
    if (enough) released = std::min(released, port.window->begin);
    if (released < port.credited + std::max<std::uint32_t>(1, port.ring.geometry.slots / 2)) continue;
    port.credited = released;
    frame.port = port.number;
    frame.credit = {released, {}};
    return true;
  }
  return false;
}

}  // namespace tutti::transport::tcp

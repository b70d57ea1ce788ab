#include "transport/tcp/sender.h"

#include <algorithm>
#include <limits>
#include <string>

#include "src/base/socket.h"
#include "transport/tcp/receiver.h"
#include "tutti/error.h"

namespace tutti::transport::tcp {

using runtime::Ring;
using runtime::SlotHeader;

namespace {

constexpr Frame control(FrameKind kind) { return {.kind = kind, .acknowledged = 0, .zero = 0, .port = 0, .data = {}}; }

std::string text_of(const runtime::RingGeometry& geometry, std::uint32_t reader, bool acknowledged) {
  return std::to_string(geometry.slots) + " slots of " + std::to_string(geometry.slot_bytes) + " bytes, reader " +
         std::to_string(reader) + " of " + std::to_string(geometry.readers) +
         (acknowledged ? ", acknowledged" : ", not acknowledged");
}

}  // namespace

void Sender::add_port(runtime::PortId id, const Ring& ring, std::uint32_t reader, bool acknowledged) {
  for (const Port& port : ports_)
    if (port.id == id)
      throw Error(ErrorCode::internal_error, pair_ + ": port " + std::to_string(id) + " was added twice");
  Port port{.ring = ring, .id = id, .reader = reader, .acknowledged = acknowledged};
  point_at_next(port);
  ports_.push_back(port);
  if (!runtime::lasts(id)) {
    for (Claim& claim : claims_)
      if (claim.valid && claim.port == kNoPort && claim.frame.claim.id == id) return open(ports_.size() - 1, claim);
    return;
  }
  Port& lasting = ports_.back();
  lasting.opening = true;
  lasting.limit = ring.geometry.slots;
  ++opening_;
}

// The reader uses a number again when it has forgotten its port. It may forget, and claim anew, before this rank has
// come to the same operation: then the port that had the number is about to be forgotten here too, and a claim for a
// port that was claimed before waits for the port that this rank will add later.
std::string Sender::on_claim(const Frame& frame) {
  if (runtime::lasts(frame.claim.id)) return "it claimed port " + std::to_string(frame.claim.id) + ", which lasts";
  if (frame.port > claims_.size() || frame.port >= kMostClaims)
    return "it claimed port number " + std::to_string(frame.port) + " after " + std::to_string(claims_.size());
  if (frame.port == claims_.size()) claims_.emplace_back();
  Claim& claim = claims_[frame.port];
  if (claim.port != kNoPort) ports_[claim.port].limit = 0;
  claim = {frame};
  for (std::size_t index = 0; index < ports_.size(); ++index)
    if (ports_[index].id == frame.claim.id && !ports_[index].claimed) open(index, claim);
  return {};
}

void Sender::open(std::size_t index, Claim& claim) {
  Port& port = ports_[index];
  const auto& wanted = claim.frame.claim;
  const bool acknowledged = claim.frame.acknowledged != 0;
  const runtime::RingGeometry geometry{wanted.readers, wanted.slots, wanted.slot_bytes};
  if (geometry != port.ring.geometry || wanted.reader != port.reader || acknowledged != port.acknowledged)
    throw Error(ErrorCode::invalid_usage,
                pair_ + " disagree about port " + std::to_string(port.id) + ": the writer has " +
                    text_of(port.ring.geometry, port.reader, port.acknowledged) + ", the reader " +
                    text_of(geometry, wanted.reader, acknowledged) + "; do all ranks make the same call?");
  claim.port = index;
  port.claimed = true;
  port.number = claim.frame.port;
  port.limit = port.acknowledged ? geometry.slots : std::numeric_limits<std::uint64_t>::max();
}

void Sender::forget_all_but(std::span<const runtime::PortId> kept) {
  if (busy()) throw Error(ErrorCode::internal_error, pair_ + ": rings were let go while messages were on their way");
  std::vector<std::size_t> moved(ports_.size(), kNoPort);
  std::vector<Port> ports;
  for (std::size_t index = 0; index < ports_.size(); ++index) {
    const runtime::PortId id = ports_[index].id;
    if (!runtime::lasts(id) && std::find(kept.begin(), kept.end(), id) == kept.end()) continue;
    moved[index] = ports.size();
    ports.push_back(ports_[index]);
  }
  for (Claim& claim : claims_) {
    if (claim.port == kNoPort) continue;
    claim.port = moved[claim.port];
    claim.valid = claim.port != kNoPort;
  }
  ports_ = std::move(ports);
  turn_ = 0;
}

std::string Sender::on_credit(const Frame& frame) {
  const Claim* claim = frame.port < claims_.size() ? &claims_[frame.port] : nullptr;
  if (claim != nullptr && !claim->valid) return {};  // of a port that is forgotten here already
  const std::uint64_t released = frame.credit.released;
  std::size_t index = claim != nullptr ? claim->port : kNoPort;
  if ((frame.port & kOpened) != 0)
    for (std::size_t i = 0; i < ports_.size(); ++i)
      if (ports_[i].number == frame.port) index = i;
  if (index != kNoPort && ports_[index].acknowledged) {
    Port& port = ports_[index];
    const std::uint64_t limit = released + port.ring.geometry.slots;
    if (limit > port.limit && released <= port.next) {
      port.limit = limit;
      return {};
    }
  }
  return "it released " + std::to_string(released) + " messages of port number " + std::to_string(frame.port) +
         ", which cannot be";
}

void Sender::point_at_next(Port& port) const {
  port.expected = runtime::stamp_of(epoch_, port.next);
  port.stamp = &port.ring.slot(port.next).stamp;
}

void Sender::push(const Frame& frame, const std::byte* payload, std::size_t bytes, std::size_t port) {
  queue_[(head_ + count_++) % kQueue] = {frame, payload, bytes, port};
}

bool Sender::goodbye(int socket) {
  bool moved = false;
  int error = 0;
  while (count_ > 0 || !goodbye_) {
    if (!goodbye_ && count_ < kQueue) {
      push(control(FrameKind::goodbye), nullptr, 0);
      goodbye_ = true;
    }
    if (write(socket, moved, error) != Result::empty) return false;
  }
  return true;
}

void Sender::push_message(Port& port, std::size_t index) {
  SlotHeader& slot = port.ring.slot(port.next);
  const std::size_t bytes = slot.bytes();
  if (bytes > std::max<std::size_t>(port.ring.geometry.slot_bytes, runtime::kInlineBytes))
    throw Error(ErrorCode::internal_error,
                "a message of " + std::to_string(bytes) + " bytes was published in a slot of " +
                    std::to_string(port.ring.geometry.slot_bytes) + " bytes (port " + std::to_string(port.id) + ")");
  Frame frame = control(FrameKind::data);
  frame.port = port.number;
  frame.data = {port.expected, slot.bytes(), slot.fingerprint, 0};
  push(frame, Ring::payload(slot, bytes), bytes, index);
  ++messages_;
  ++port.next;
  point_at_next(port);
}

void Sender::push_opens() {
  for (Port& port : ports_) {
    if (!port.opening || count_ == kQueue) continue;
    port.opening = false;
    --opening_;
    port.number = kOpened | opened_;
    Frame frame = control(FrameKind::open);
    frame.port = opened_++;
    frame.acknowledged = port.acknowledged;
    const runtime::RingGeometry& geometry = port.ring.geometry;
    frame.claim = {port.id, port.reader, geometry.readers, geometry.slots, geometry.slot_bytes};
    push(frame, nullptr, 0);
  }
}

void Sender::collect(Receiver& receiver) {
  if (opening_ != 0) push_opens();
  for (Frame frame = control(FrameKind::claim); count_ < kQueue && receiver.next_claim(frame);) push(frame, nullptr, 0);
  for (Frame frame = control(FrameKind::credit); count_ < kQueue && receiver.next_credit(frame);)
    push(frame, nullptr, 0);
  // One message per port in turn, so that a busy port does not keep the others waiting.
  for (std::size_t idle = 0; idle < ports_.size() && count_ < kQueue;) {
    if (++turn_ >= ports_.size()) turn_ = 0;
    Port& port = ports_[turn_];
    if (port.next < port.limit && !port.opening && port.published()) {
      push_message(port, turn_);
      idle = 0;
    } else {
      ++idle;
    }
  }
}

Sender::Result Sender::send(int socket, Receiver& receiver, bool& moved, int& error) {
  while (count_ > 0) {
    const Result result = write(socket, moved, error);
    if (result != Result::empty) return result;
    collect(receiver);
  }
  return Result::empty;
}

// One system call for the whole queue, headers and payloads; `empty` when the socket may take more.
Sender::Result Sender::write(int socket, bool& moved, int& error) {
  std::array<iovec, 2 * kQueue> pieces;
  std::size_t used = 0;
  std::size_t skip = offset_;
  for (std::size_t i = 0; i < count_; ++i) {
    Queued& queued = queue_[(head_ + i) % kQueue];
    const std::size_t of_header = std::min(skip, sizeof(Frame));
    skip -= of_header;
    if (of_header < sizeof(Frame))
      pieces[used++] = {reinterpret_cast<std::byte*>(&queued.frame) + of_header, sizeof(Frame) - of_header};
    if (skip < queued.bytes) pieces[used++] = {const_cast<std::byte*>(queued.payload) + skip, queued.bytes - skip};
    skip = 0;
  }
  const base::Transfer transfer = base::send(socket, pieces.data(), used);
  if (transfer.state == base::Transfer::State::failed) {
    error = transfer.error;
    return Result::failed;
  }
  if (transfer.state != base::Transfer::State::moved) return Result::full;
  moved = true;
  sent(transfer.bytes);
  return Result::empty;
}

// `bytes` more have left: the frames that are complete leave the queue.
void Sender::sent(std::size_t bytes) {
  offset_ += bytes;
  while (count_ > 0) {
    const Queued& first = queue_[head_];
    const std::size_t whole = sizeof(Frame) + first.bytes;
    if (offset_ < whole) break;
    offset_ -= whole;
    complete(first);
    head_ = (head_ + 1) % kQueue;
    --count_;
  }
}

void Sender::complete(const Queued& queued) {
  if (queued.frame.kind != FrameKind::data) return;
  --messages_;
  const Port& port = ports_[queued.port];
  // Only this rank's thread writes it (hence the relaxed load). Release: the kernel has copied the slot before its
  // writer, who acquires the number, may write it again.
  auto& released = port.ring.released(port.reader);
  released.store(released.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool Sender::pending() const {
  return messages_ > 0 || std::any_of(ports_.begin(), ports_.end(), [](const Port& port) { return port.published(); });
}

}  // namespace tutti::transport::tcp

#include "src/runtime/exchange.h"

#include <algorithm>
#include <cstring>

#include "src/runtime/memory.h"
#include "src/runtime/transport.h"

namespace tutti::runtime {

using Direction = Transfer::Direction;

namespace {

constexpr std::size_t kCountBytes = sizeof(std::uint64_t);  // in front of a first message
constexpr std::size_t kLentPiece = std::size_t{256} << 10;  // bytes that are copied between two looks at other lanes
constexpr std::size_t kByKernel = 4096;                     // bytes from which the copy kernel pays

std::uint32_t mark_of(DataType type, std::uint64_t number) {
  return static_cast<std::uint32_t>(number << 8) | static_cast<std::uint32_t>(type);
}

std::string in_words(std::uint32_t type, std::uint64_t count) {
  const std::string name = type < static_cast<std::uint32_t>(kDataTypes)
                               ? std::string(name_of(static_cast<DataType>(type)))
                               : "type " + std::to_string(type);
  return name + " x " + std::to_string(count);
}

std::string in_words(const Transfer& transfer) {
  return in_words(static_cast<std::uint32_t>(transfer.type), transfer.count);
}

}  // namespace

Exchange::Exchange(const Setting& setting, Pairs& pairs) : setting_(setting), pairs_(pairs) {}

void Exchange::start(std::span<const Transfer> transfers) {
  for (const Lane& lane : lanes_) known_[static_cast<std::size_t>(lane.peer) * 2 + std::size_t(lane.direction)] = kNone;
  lanes_.clear();
  transfers_ = transfers;
  next_.assign(transfers.size(), kNone);
  bool with_self = false;
  for (std::uint32_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i].peer == setting_.rank) {
      with_self = true;
      continue;
    }
    Lane& lane = lane_of(transfers[i]);
    (lane.first == kNone ? lane.first : next_[lane.last]) = i;
    lane.last = i;
  }
  left_ = lanes_.size();
  if (with_self) copy_to_self();
  for (Lane& lane : lanes_) {
    lane.pair = &pairs_.with(lane.peer);
    if (lane.direction == Direction::send && lane.pair->send == nullptr) pairs_.open_send(lane.peer);
  }
}

Exchange::Lane& Exchange::lane_of(const Transfer& transfer) {
  if (known_.empty()) known_.assign(static_cast<std::size_t>(setting_.ranks) * 2, kNone);
  std::uint32_t& index = known_[static_cast<std::size_t>(transfer.peer) * 2 + std::size_t(transfer.direction)];
  if (index == kNone) {
    index = static_cast<std::uint32_t>(lanes_.size());
    lanes_.push_back({.peer = transfer.peer, .direction = transfer.direction});
  }
  return lanes_[index];
}

// The k-th send to this rank meets its k-th receive.
void Exchange::copy_to_self() const {
  std::size_t receive = 0;
  for (const Transfer& sent : transfers_) {
    if (sent.peer != setting_.rank || sent.direction != Direction::send) continue;
    while (transfers_[receive].peer != setting_.rank || transfers_[receive].direction != Direction::receive) ++receive;
    const Transfer& taken = transfers_[receive++];
    if (taken.data != sent.data && sent.count != 0) std::memmove(taken.data, sent.data, bytes_of(sent));
  }
}

void Exchange::copy(void* to, const void* from, std::size_t bytes, std::size_t whole) const {
  if (bytes == 0) return;
  if (bytes < kByKernel) {
    std::memcpy(to, from, bytes);
    return;
  }
  const ReduceOutput out{static_cast<std::byte*>(to), whole >= setting_.streaming_from};
  setting_.copy({&out, 1}, static_cast<const std::byte*>(from), bytes);
}

Exchange::State Exchange::advance() {
  bool moved = false;
  for (Lane& lane : lanes_) {
    if (lane.done) continue;
    const State state = lane.direction == Direction::send ? send(lane) : receive(lane);
    if (state == State::mismatch) return state;
    moved = moved || state != State::blocked;
    if (state != State::done) continue;
    lane.done = true;
    --left_;
  }
  if (left_ == 0) return State::done;
  return moved ? State::moved : State::blocked;
}

void Exchange::pass_transfer(Lane& lane) {
  ++(lane.direction == Direction::send ? lane.pair->sent : lane.pair->received);
  lane.first = next_[lane.first];
  lane.moved = 0;
  lane.begun = false;
}

// ---- sending --------------------------------------------------------------------------------------------------------

// At most a ring of messages at a time, so that a fast reader does not keep us from the other lanes.
Exchange::State Exchange::send(Lane& lane) {
  SendEnd& end = *lane.pair->send;
  std::uint32_t sent = 0;
  for (; lane.first != kNone && sent < end.ring.geometry.slots && slot_free(end); ++sent) send_message(lane);
  if (lane.first == kNone && (!lane.lent || end.ring.released(0).load(std::memory_order_acquire) >= end.lent_until))
    return State::done;
  return sent == 0 ? State::blocked : State::moved;
}

bool Exchange::slot_free(SendEnd& end) const {
  if (end.next < end.free_until) return true;
  end.free_until = end.ring.released(0).load(std::memory_order_acquire) + end.ring.geometry.slots;
  return end.next < end.free_until;
}

void Exchange::send_message(Lane& lane) {
  SendEnd& end = *lane.pair->send;
  const Transfer& transfer = at_hand(lane);
  const std::size_t bytes = bytes_of(transfer);
  const auto* data = static_cast<const std::byte*>(transfer.data) + lane.moved;
  SlotHeader& slot = *end.slot;
  const std::size_t prefix = lane.begun ? 0 : kCountBytes;
  const auto address = lane.begun ? std::nullopt : lendable(transfer.data, bytes, end.reach);
  const std::uint64_t count = transfer.count;
  if (address) {
    std::memcpy(slot.inline_data, &count, kCountBytes);
    std::memcpy(slot.inline_data + kCountBytes, &*address, sizeof *address);
    slot.size = static_cast<std::uint32_t>(kCountBytes + sizeof *address) | SlotHeader::kLent;
    end.lent_until = end.next + 1;
    lane.lent = true;
    lane.moved = bytes;
  } else {
    const std::size_t piece = std::min(bytes - lane.moved, end.ring.geometry.slot_bytes - prefix);
    std::byte* const payload = Ring::payload(slot, prefix + piece);
    std::memcpy(payload, &count, prefix);
    copy(payload + prefix, data, piece, 0);
    slot.size = static_cast<std::uint32_t>(prefix + piece);
    lane.moved += piece;
  }
  lane.begun = true;
  slot.fingerprint = mark_of(transfer.type, lane.pair->sent);
  slot.stamp.store(stamp_of(setting_.epoch, end.next), std::memory_order_release);
  end.pass();
  end.readers[0].wake();
  if (lane.moved == bytes) pass_transfer(lane);
}

std::optional<MemoryAddress> Exchange::lendable(const void* data, std::size_t bytes, Reach reach) const {
  if (bytes < kDirectFrom || reach == Reach::none) return std::nullopt;
  MemoryAddress at{.local = static_cast<const std::byte*>(data)};
  if (reach == Reach::process) return at;
  const auto place = find_segment(data, bytes);
  if (!place) return std::nullopt;
  at.segment = place->segment;
  at.offset = place->offset;
  return at;
}

bool Exchange::lends() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.lent; });
}

// ---- receiving ------------------------------------------------------------------------------------------------------

Exchange::State Exchange::receive(Lane& lane) {
  if (lane.pair->receive == nullptr) pairs_.open_receive(lane.peer);
  if (lane.pair->receive == nullptr) return State::blocked;
  ReceiveEnd& end = *lane.pair->receive;
  if (end.window != nullptr && !lane.announced) *end.window = {end.next, end.next + messages_of(lane)};
  lane.announced = true;
  std::uint32_t taken = 0;
  for (; lane.first != kNone && taken < end.ring.geometry.slots; ++taken) {
    if (end.slot->stamp.load(std::memory_order_acquire) != stamp_of(setting_.epoch, end.next)) break;
    const State state = take_message(lane);
    if (state == State::mismatch) return state;
    if (state == State::blocked) break;
  }
  if (lane.first != kNone) return taken == 0 ? State::blocked : State::moved;
  // Nothing more is taken now: a transport may say what was, so that the writer can send again before we ask.
  if (end.window != nullptr) *end.window = {end.next, end.next};
  return State::done;
}

// How many messages the lane's transfers come in, when they are copied.
std::uint64_t Exchange::messages_of(const Lane& lane) const {
  const std::size_t slot = lane.pair->receive->ring.geometry.slot_bytes;
  std::uint64_t messages = 0;
  for (std::uint32_t i = lane.first; i != kNone; i = next_[i]) {
    const std::size_t bytes = kCountBytes + bytes_of(transfers_[i]);
    messages += std::max<std::size_t>(1, (bytes + slot - 1) / slot);
  }
  return messages;
}

// The next message, or a piece of it when it is lent.
Exchange::State Exchange::take_message(Lane& lane) {
  ReceiveEnd& end = *lane.pair->receive;
  SlotHeader& slot = *end.slot;
  const Transfer& transfer = at_hand(lane);
  const std::size_t bytes = bytes_of(transfer);
  if ((slot.size & SlotHeader::kLent) != 0) {
    if (!lane.begun && !agrees(lane, slot)) return State::mismatch;
    lane.begun = true;
    if (const State state = take_lent(lane, slot); state == State::blocked || lane.moved < bytes) return state;
  } else {
    if (!lane.begun && !agrees(lane, slot)) return State::mismatch;
    const std::size_t prefix = lane.begun ? 0 : kCountBytes;
    const std::size_t piece = std::min(bytes - lane.moved, end.ring.geometry.slot_bytes - prefix);
    if (slot.bytes() != prefix + piece)
      throw Error(ErrorCode::internal_error, "rank " + std::to_string(lane.peer) + " sent " +
                                                 std::to_string(slot.bytes()) + " bytes where " +
                                                 std::to_string(prefix + piece) + " were due");
    copy(static_cast<std::byte*>(transfer.data) + lane.moved, Ring::payload(slot, prefix + piece) + prefix, piece,
         bytes);
    lane.begun = true;
    lane.moved += piece;
  }
  end.pass();
  end.ring.released(0).store(end.next, std::memory_order_release);
  end.memory.wake();
  if (lane.moved == bytes) pass_transfer(lane);
  return State::moved;
}

// Whether the message begins the transfer that this rank expects.
bool Exchange::agrees(const Lane& lane, const SlotHeader& slot) {
  const Transfer& expected = at_hand(lane);
  std::uint64_t count = 0;
  const bool whole = slot.bytes() >= kCountBytes;
  if (whole) std::memcpy(&count, Ring::payload(const_cast<SlotHeader&>(slot), slot.bytes()), kCountBytes);
  const std::uint32_t mark = mark_of(expected.type, lane.pair->received);
  if (whole && count == expected.count && slot.fingerprint == mark) return true;
  if (!whole || slot.fingerprint >> 8 != mark >> 8)
    throw Error(ErrorCode::internal_error, "rank " + std::to_string(lane.peer) + " sent another message than number " +
                                               std::to_string(lane.pair->received) + " of those between it and rank " +
                                               std::to_string(setting_.rank));
  mismatch_ = "calls do not match: rank " + std::to_string(lane.peer) + " sends " +
              in_words(slot.fingerprint & 0xff, count) + " to rank " + std::to_string(setting_.rank) +
              ", which expects " + in_words(expected);
  return false;
}

// Copies a piece from where it lies in the sender's memory. Blocked while that is being mapped, and when the sender has
// taken it back (direct.h).
Exchange::State Exchange::take_lent(Lane& lane, const SlotHeader& slot) {
  const PeerMemory& peer = lane.pair->receive->memory;
  const Transfer& transfer = at_hand(lane);
  const std::size_t bytes = bytes_of(transfer);
  MemoryAddress where;
  std::memcpy(&where, slot.inline_data + kCountBytes, sizeof where);
  const auto from = peer.transport->map(peer.rank, where, bytes);
  if (!from) return State::blocked;
  setting_.flags->touching.store(1, std::memory_order_seq_cst);
  const bool revoked = peer.flags->revoked.load(std::memory_order_seq_cst) != 0;
  const std::size_t piece = revoked ? 0 : std::min(bytes - lane.moved, kLentPiece);
  copy(static_cast<std::byte*>(transfer.data) + lane.moved, *from + lane.moved, piece, bytes);
  setting_.flags->touching.store(0, std::memory_order_release);
  lane.moved += piece;
  return revoked ? State::blocked : State::moved;
}

// ---- reports --------------------------------------------------------------------------------------------------------

bool Exchange::waits_for(int peer) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return lane.peer == peer && pending(lane); });
}

// Not complete; or, when the peer is on another host, not on its way to it.
bool Exchange::pending(const Lane& lane) const {
  if (!lane.done) return true;
  if (lane.direction == Direction::receive || lane.pair->send->reach != Reach::none) return false;
  const SendEnd& end = *lane.pair->send;
  return end.ring.released(0).load(std::memory_order_acquire) < end.next;
}

std::string Exchange::waiting_for() const {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [this](const Lane& one) { return pending(one); });
  if (lane == lanes_.end()) return "nothing but its own turn";
  const auto others = std::count_if(lane + 1, lanes_.end(), [this](const Lane& one) { return pending(one); });
  const bool sends = lane->direction == Direction::send;
  const std::string peer = "rank " + std::to_string(lane->peer);
  std::string text = peer + " to take what was sent to it";
  if (lane->first != kNone)
    text = peer + (sends ? " to receive " : " to send ") + in_words(at_hand(*lane)) + " (transfer " +
           std::to_string(lane->first + 1) + " of " + std::to_string(transfers_.size()) +
           (lane->moved == 0 ? "" : ", after " + std::to_string(lane->moved) + " bytes") + ")";
  if (others != 0) text += ", and for " + std::to_string(others) + (others == 1 ? " other" : " others");
  return text;
}

}  // namespace tutti::runtime

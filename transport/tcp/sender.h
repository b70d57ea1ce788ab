// The outgoing half of a connection: which messages of this rank's rings the peer still has to get, and the frames that
// are on their way into the socket. No allocation per message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/ring.h"
#include "transport/tcp/wire.h"

namespace tutti::transport::tcp {

class Receiver;

class Sender {
 public:
  // `pair` names writer and reader in errors: "rank 0 and rank 3".
  Sender(std::uint16_t epoch, std::string pair) : epoch_(epoch), pair_(std::move(pair)) {}

  void add_port(runtime::PortId id, const runtime::Ring& ring, std::uint32_t reader, bool acknowledged);

  // Forgets all ports but those of `kept` and lasting ones (see Transport::forget_all_but).
  void forget_all_but(std::span<const runtime::PortId> kept);

  // Frames of the peer, as the readers of ports say them: a port was claimed, messages were released. The answer is
  // empty, or what is wrong with the frame. on_claim throws Error(invalid_usage) when the two sides disagree about the
  // port.
  std::string on_claim(const Frame& frame);
  std::string on_credit(const Frame& frame);

  // Puts what there is to send into the queue: claims and credits of `receiver`, published messages that the peer has
  // room for.
  void collect(Receiver& receiver);
  // Sends from the queue, and refills it, until it is empty or the socket is full. Adds what left to `moved`.
  enum class Result { empty, full, failed };
  Result send(int socket, Receiver& receiver, bool& moved, int& error);

  // A message is published that has not left yet (queued, without credit, or half sent).
  bool pending() const;
  // A message is in the queue. Does not look at the rings.
  bool busy() const { return messages_ > 0; }
  // Sends what is in the queue and then, as the last frame, a goodbye; true when all of it has left. Call it when not
  // busy, again until it has succeeded.
  bool goodbye(int socket);

 private:
  static constexpr std::size_t kQueue = 32;

  struct Port {
    runtime::Ring ring;
    runtime::PortId id;
    std::uint32_t reader;
    bool acknowledged;
    bool claimed = false;
    bool opening = false;        // the peer is to be told that there is this port
    std::uint32_t number = 0;    // the reader's, once it has claimed the port; of a lasting one, our own
    std::uint64_t next = 0;      // message to queue
    std::uint64_t limit = 0;     // first message without room at the reader; 0 while that has not claimed the port
    std::uint64_t expected = 0;  // stamp of `next`
    const std::atomic<std::uint64_t>* stamp = nullptr;  // where that will appear

    // Acquire, for the store by which the ring's writer publishes: header and payload are then there to be sent.
    bool published() const { return stamp->load(std::memory_order_acquire) == expected; }
  };
  static constexpr std::size_t kNoPort = ~std::size_t{0};
  struct Claim {
    Frame frame;
    std::size_t port = kNoPort;  // until this rank adds the port
    bool valid = true;           // false when this rank has forgotten its port
  };
  struct Queued {
    Frame frame;
    const std::byte* payload;
    std::size_t bytes;
    std::size_t port;  // of a message
  };

  Result write(int socket, bool& moved, int& error);
  void push(const Frame& frame, const std::byte* payload, std::size_t bytes, std::size_t port = 0);
  void push_message(Port& port, std::size_t index);
  void push_opens();
  void point_at_next(Port& port) const;
  void open(std::size_t index, Claim& claim);
  void sent(std::size_t bytes);
  void complete(const Queued& queued);

  std::uint16_t epoch_;
  std::string pair_;
  static constexpr std::size_t kMostClaims = 1 << 16;

  std::vector<Port> ports_;
  std::vector<Claim> claims_;  // by the reader's number
  std::uint32_t opened_ = 0;   // ports that the peer was told of
  std::size_t opening_ = 0;    // those that it is to be told of
  std::size_t turn_ = 0;       // the port that is looked at first
  std::array<Queued, kQueue> queue_;
  std::size_t head_ = 0, count_ = 0;
  std::size_t messages_ = 0;  // in the queue
  bool goodbye_ = false;      // is in the queue
  std::size_t offset_ = 0;    // bytes of the first frame that have left
};

}  // namespace tutti::transport::tcp

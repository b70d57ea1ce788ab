// The incoming half of a connection: reads frames, puts each message straight into its slot and publishes it. Bytes
// from the network are bounded and checked in every field before they are used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/runtime/ring.h"
#include "transport/tcp/wire.h"

namespace tutti::transport::tcp {

class Sender;

class Receiver {
 public:
  // The peer may open rings of at most `open_limit` bytes in all.
  Receiver(std::uint16_t epoch, std::size_t open_limit) : epoch_(epoch), open_limit_(open_limit) {}

  // How errors about what the peer sends begin: "rank 0 got garbage from rank 3 at 10.0.0.2:41000".
  void set_complaint(std::string text) { complaint_ = std::move(text); }

  // The ring of the peer's port, if it is claimed, or was opened, already.
  const runtime::Ring* find(runtime::PortId id) const;
  // Makes the ring in which the messages of the peer's port will appear; the peer is told by the next claim frame,
  // unless the port is a lasting one.
  runtime::Ring claim(runtime::PortId id, std::uint32_t reader, const runtime::RingGeometry& geometry,
                      bool acknowledged);

  // What the reader of a claimed, acknowledged port takes in its operation at hand; null for others.
  runtime::ReadWindow* window(runtime::PortId id) const;

  // Forgets all rings but those of `kept` and of lasting ports (see Transport::forget_all_but); their bytes.
  std::size_t forget_all_but(std::span<const runtime::PortId> kept);

  // Reads what has come. Messages go to their rings, the rest to `sender`. Adds what came to `moved`. Throws
  // Error(remote_error) for anything that a rank of this library would not send.
  enum class Result {
    drained,  // nothing more now
    more,     // stopped for fairness
    closed,   // the peer has sent its last byte
    failed,   // `error` is the errno
  };
  Result receive(int socket, Sender& sender, bool& moved, int& error);

  // The peer said goodbye.
  bool left() const { return left_; }

  // The peer has sent anything.
  bool heard() const { return heard_; }

  // Fills in a frame for the peer: a claim that it was not told of, the next port of which enough was released that it
  // should know; false when there is none.
  bool next_claim(Frame& frame);
  bool next_credit(Frame& frame);

 private:
  static constexpr std::size_t kStaging = 4096;
  static constexpr int kReadsPerCall = 16;

  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{runtime::kReaderLine}); }
  };
  struct Port {
    runtime::PortId id;
    std::unique_ptr<std::byte, Free> memory;
    runtime::Ring ring;
    std::uint32_t reader;
    bool acknowledged;
    bool told = false;           // the peer knows that we have room for it
    std::uint32_t number = 0;    // by which credits name it
    std::uint64_t next = 0;      // message
    std::uint64_t credited = 0;  // released messages that the peer knows of
    std::unique_ptr<runtime::ReadWindow> window = std::make_unique<runtime::ReadWindow>();

    // Acquire, for the reader's release store: it has read the slots that the next payloads go into.
    std::uint64_t released() const { return ring.released(reader).load(std::memory_order_acquire); }
  };

  void parse(Sender& sender);
  void take_payload();
  void handle(const Frame& frame, Sender& sender);
  Port& make_port(runtime::PortId id, std::uint32_t reader, const runtime::RingGeometry& geometry, bool acknowledged);
  std::string on_open(const Frame& frame);
  Port* port_of(std::uint32_t number);
  void begin_message(const Frame& frame);
  void publish();
  [[noreturn]] void reject(const std::string& what) const;

  std::uint16_t epoch_;
  std::size_t open_limit_;
  std::string complaint_;
  static constexpr std::size_t kForgotten = ~std::size_t{0};

  std::vector<Port> ports_;                                 // without memory where forgotten, to be used again
  std::unordered_map<runtime::PortId, std::size_t> known_;  // index into ports_
  std::vector<std::size_t> claimed_;  // index into ports_, by this rank's number; kForgotten: to be used again
  std::vector<std::size_t> opened_;   // index into ports_, by the writer's number
  std::size_t untold_ = 0;            // claims that the peer does not know of yet
  std::size_t turn_ = 0;              // the port whose credit was looked at last
  bool left_ = false, heard_ = false;

  std::array<std::byte, kStaging> staging_;  // bytes read and not yet parsed are [begin_, end_)
  std::size_t begin_ = 0, end_ = 0;

  // The message being read; none when slot_ is null.
  runtime::SlotHeader* slot_ = nullptr;
  std::uint64_t stamp_ = 0;
  std::byte* payload_ = nullptr;  // where its next byte goes
  std::size_t missing_ = 0;       // bytes
};

}  // namespace tutti::transport::tcp

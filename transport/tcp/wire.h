// Everything that travels: the handshake that opens a connection, then frames. Plain structs in the sender's byte
// order; the handshake refuses a peer of another order or version.
//
// Handshake: the dialer connects and sends Hello; the acceptor answers Hello and Proof, the dialer answers Proof. A
//            Proof is an HMAC over both Hellos with the communicator's secret, so each side has proven that it knows
//            the secret to a challenge of the other. Either rank of a pair may dial, several connections may be on
//            their way at once. The lower rank offers each that is proven, by kChosen; the higher one echoes the first
//            kChosen that it reads and closes the others. So a connection that one side has given up in the meantime is
//            never used: the lower rank uses the one with the echo, and one that ends before was only an attempt. Once
//            it has offered a connection it does not close it before another one is confirmed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::transport::tcp {

inline constexpr std::uint16_t kWireVersion = 3;
inline constexpr std::uint16_t kByteOrder = 0x0102;
inline constexpr std::array<char, 8> kMagic{'T', 'U', 'T', 'T', 'I', 't', 'c', 'p'};
inline constexpr std::array<char, 8> kChosen{'c', 'h', 'o', 's', 'e', 'n', '.', '\n'};

struct Hello {
  std::array<char, 8> magic;
  std::uint16_t version;
  std::uint16_t byte_order;
  std::uint32_t size;  // ranks
  std::uint64_t communicator;
  std::uint32_t from;
  std::uint32_t to;
  std::uint16_t socket;  // which of `sockets` parallel connections of the pair; today there is one
  std::uint16_t sockets;
  std::uint32_t zero;
  std::array<std::byte, 32> challenge;
};
static_assert(sizeof(Hello) == 72);

using Proof = std::array<unsigned char, 32>;

enum class FrameKind : std::uint8_t {
  claim = 1,  // the reader has room for the messages of a port and numbers it (0, 1, ...); later frames use that
  data,       // one message; `bytes` of payload follow
  credit,     // the reader has released so many messages
  goodbye,    // the sender leaves in good order; nothing follows
  open,       // the writer has made a lasting port and numbers it (0, 1, ...), in the form of a claim
};

// A message is sent only after its port was claimed: whatever arrives has its place, so the reader never has to leave
// bytes unread, and a port that it asks for late (its thread is still in an earlier operation) holds up no other port.
// Data frames carry the whole stamp, so that messages of one port may come over several sockets.
//
// A lasting port (src/runtime/ring.h) does not wait for its reader to ask, who may do so much later: its writer opens
// it and sends as many messages as the ring has slots. The peer's side makes the ring when it hears of it, if it has
// not yet. Nobody claims such a port; data and credits go by the writer's number, marked by kOpened.
inline constexpr std::uint32_t kOpened = 1u << 31;

struct Frame {
  FrameKind kind;
  std::uint8_t acknowledged;  // claim, open
  std::uint16_t zero;
  std::uint32_t port;  // the reader's number for it, or the writer's, see kOpened
  union {
    struct {
      std::uint64_t id;
      std::uint32_t reader;
      std::uint32_t readers;
      std::uint32_t slots;
      std::uint32_t slot_bytes;
    } claim;
    struct {
      std::uint64_t stamp;
      std::uint32_t bytes;
      std::uint32_t fingerprint;
      std::uint64_t zero;
    } data;
    struct {
      std::uint64_t released;
      std::uint64_t zero[2];
    } credit;
  };
};
static_assert(sizeof(Frame) == 32);

}  // namespace tutti::transport::tcp

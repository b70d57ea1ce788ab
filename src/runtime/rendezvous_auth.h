// How two processes of one job recognise each other over any socket, before anything else is said:
//
//   caller  -> greeting   purpose, nonce C                                       (a stranger's bytes end here)
//   door    -> challenge  nonce D, HMAC(secret, "door", purpose, C, D)           (the caller now trusts the door)
//   caller  -> proof      HMAC(secret, "caller", purpose, C, D, hello), hello    (the door now trusts the caller)
//   door    -> welcome | refusal
//
// Both prove that they know the secret without showing it; what follows on the connection is not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "src/runtime/job.h"
#include "src/runtime/wire.h"
#include "tutti/error.h"

namespace tutti::runtime {

using Nonce = std::array<std::byte, 32>;

enum class Purpose : std::uint8_t { meeting = 1, control = 2, memory = 3 };

enum Handshake : std::uint8_t { kGreeting = 1, kChallenge = 2, kProof = 3, kWelcome = 4, kRefusal = 5 };

inline constexpr std::size_t kStrangerLimit = 128;  // bytes of a greeting or challenge
inline constexpr std::size_t kHelloLimit = 16384;   // bytes of a proof

Nonce random_nonce();
Secret random_secret();
// A value that only holders of the secret can compute, 32 hexadecimal digits: names for sockets.
std::string secret_name(const Secret& secret, std::string_view what);
// A secret made of text: as strong as the text is hard to guess.
Secret secret_from_text(std::string_view text);

Bytes greeting(Purpose purpose, const Nonce& caller);
std::optional<Nonce> read_greeting(const Frame& frame, Purpose purpose);

Bytes challenge(const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door);
enum class Verdict { good, wrong_secret, garbage };
Verdict read_challenge(const Frame& frame, const Secret& secret, Purpose purpose, const Nonce& caller, Nonce& door);

Bytes proof(const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door, const Bytes& hello);
Verdict read_proof(const Frame& frame, const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door,
                   Bytes& hello);

// Why the door does not let a caller in; `again`: it may be different later (the caller keeps trying).
struct Refusal {
  ErrorCode code = ErrorCode::invalid_usage;
  bool again = false;
  std::string text;
};
Bytes refusal(const Refusal& refusal);
std::optional<Refusal> read_refusal(const Frame& frame);

}  // namespace tutti::runtime

#include "src/runtime/rendezvous_auth.h"

#include <sodium.h>

#include <algorithm>

namespace tutti::runtime {
namespace {

constexpr std::string_view kMagic = "tutti rendezvous";
constexpr std::size_t kMacBytes = crypto_auth_BYTES;
static_assert(crypto_auth_KEYBYTES == std::tuple_size_v<Secret>);

using Mac = std::array<std::byte, kMacBytes>;

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

template <class Array>
Array random_array() {
  // Waits for the kernel's generator to be seeded; cannot fail afterwards.
  if (sodium_init() < 0) throw Error(ErrorCode::system_error, "libsodium finds no source of random numbers");
  Array bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

Bytes transcript(std::string_view side, Purpose purpose, const Nonce& caller, const Nonce& door, const Bytes& hello) {
  return Writer()
      .text(kMagic)
      .text(side)
      .u8(static_cast<std::uint8_t>(purpose))
      .raw(caller)
      .raw(door)
      .raw(hello)
      .bytes();
}

Mac mac_of(const Secret& secret, const Bytes& message) {
  Mac mac;
  crypto_auth(raw(mac.data()), raw(message.data()), message.size(), raw(secret.data()));
  return mac;
}

bool verify(std::span<const std::byte> mac, const Secret& secret, const Bytes& message) {
  return mac.size() == kMacBytes &&
         crypto_auth_verify(raw(mac.data()), raw(message.data()), message.size(), raw(secret.data())) == 0;
}

bool take_magic(Reader& reader) {
  const auto bytes = reader.raw(kMagic.size());
  return std::equal(bytes.begin(), bytes.end(), kMagic.begin(), kMagic.end(),
                    [](std::byte b, char c) { return std::to_integer<char>(b) == c; });
}

Nonce take_nonce(Reader& reader) {
  Nonce nonce{};
  const auto bytes = reader.raw(nonce.size());
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

std::span<const std::byte> magic() { return std::as_bytes(std::span(kMagic.data(), kMagic.size())); }

}  // namespace

Nonce random_nonce() { return random_array<Nonce>(); }
Secret random_secret() { return random_array<Secret>(); }

std::string secret_name(const Secret& secret, std::string_view what) {
  const Mac mac = mac_of(secret, Writer().text("name").text(what).bytes());
  std::array<char, 33> hex{};
  sodium_bin2hex(hex.data(), hex.size(), raw(mac.data()), 16);
  return hex.data();
}

Secret secret_from_text(std::string_view text) {
  Secret secret{};
  crypto_generichash(raw(secret.data()), secret.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  return secret;
}

Bytes greeting(Purpose purpose, const Nonce& caller) {
  return Writer().raw(magic()).u8(static_cast<std::uint8_t>(purpose)).raw(caller).bytes();
}

std::optional<Nonce> read_greeting(const Frame& frame, Purpose purpose) {
  Reader reader(frame.payload);
  if (frame.type != kGreeting || !take_magic(reader) || reader.u8() != static_cast<std::uint8_t>(purpose))
    return std::nullopt;
  const Nonce caller = take_nonce(reader);
  return reader.complete() ? std::optional(caller) : std::nullopt;
}

Bytes challenge(const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door) {
  return Writer().raw(magic()).raw(door).raw(mac_of(secret, transcript("door", purpose, caller, door, {}))).bytes();
}

Verdict read_challenge(const Frame& frame, const Secret& secret, Purpose purpose, const Nonce& caller, Nonce& door) {
  Reader reader(frame.payload);
  if (frame.type != kChallenge || !take_magic(reader)) return Verdict::garbage;
  door = take_nonce(reader);
  const auto mac = reader.raw(kMacBytes);
  if (!reader.complete()) return Verdict::garbage;
  return verify(mac, secret, transcript("door", purpose, caller, door, {})) ? Verdict::good : Verdict::wrong_secret;
}

Bytes proof(const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door, const Bytes& hello) {
  return Writer().raw(mac_of(secret, transcript("caller", purpose, caller, door, hello))).raw(hello).bytes();
}

Verdict read_proof(const Frame& frame, const Secret& secret, Purpose purpose, const Nonce& caller, const Nonce& door,
                   Bytes& hello) {
  if (frame.type != kProof || frame.payload.size() < kMacBytes) return Verdict::garbage;
  const auto mac = std::span<const std::byte>(frame.payload).first(kMacBytes);
  hello.assign(frame.payload.begin() + kMacBytes, frame.payload.end());
  return verify(mac, secret, transcript("caller", purpose, caller, door, hello)) ? Verdict::good
                                                                                 : Verdict::wrong_secret;
}

Bytes refusal(const Refusal& refusal) {
  return Writer().u8(static_cast<std::uint8_t>(refusal.code)).u8(refusal.again).text(refusal.text).bytes();
}

std::optional<Refusal> read_refusal(const Frame& frame) {
  Reader reader(frame.payload);
  if (frame.type != kRefusal) return std::nullopt;
  Refusal refusal;
  const std::uint8_t code = reader.u8();
  refusal.again = reader.u8() != 0;
  refusal.text = reader.text();
  if (!reader.complete() || code > static_cast<std::uint8_t>(ErrorCode::internal_error)) return std::nullopt;
  refusal.code = static_cast<ErrorCode>(code);
  return refusal;
}

}  // namespace tutti::runtime

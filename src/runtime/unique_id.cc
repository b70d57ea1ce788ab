// UniqueId: 128 bytes = magic 4 | version 1 | addresses 1 | port 2 | secret 32 | addresses (family 1, address 4 or 16).
#include "tutti/unique_id.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

#include "src/base/socket.h"
#include "src/runtime/engine.h"
#include "src/runtime/job.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/wire.h"

namespace tutti {
namespace {

using runtime::Reader;
using runtime::Writer;

constexpr std::uint32_t kMagic = 0x44495554;  // "TUID"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kAddressSpace = 128 - 40;

// The binary form of a numeric address behind its family byte; empty when it is none.
runtime::Bytes packed(const std::string& host) {
  for (const auto& [family, mark, size] : {std::tuple{AF_INET, 4, 4}, std::tuple{AF_INET6, 6, 16}}) {
    runtime::Bytes bytes(static_cast<std::size_t>(size) + 1);
    bytes[0] = static_cast<std::byte>(mark);
    if (::inet_pton(family, host.c_str(), bytes.data() + 1) == 1) return bytes;
  }
  return {};
}

std::string unpacked(Reader& reader) {
  const std::uint8_t mark = reader.u8();
  const auto bytes = reader.raw(mark == 4 ? 4 : 16);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (!reader.ok() || (mark != 4 && mark != 6)) return {};
  ::inet_ntop(mark == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

UniqueId UniqueId::create() {
  const runtime::Secret secret = runtime::random_secret();
  auto engine = runtime::Engine::acquire();
  base::Fd tcp = base::listen_everywhere();
  const std::uint16_t port = base::local_address(tcp.get()).port;
  base::Fd local = base::listen_unix(runtime::local_name(secret, "", port));

  runtime::Bytes addresses;
  std::uint8_t count = 0;
  std::string where;
  for (const std::string& host : base::reachable_addresses()) {
    const runtime::Bytes bytes = packed(host);
    if (bytes.empty() || addresses.size() + bytes.size() > kAddressSpace) continue;
    addresses.insert(addresses.end(), bytes.begin(), bytes.end());
    ++count;
    if (where.empty()) where = (host.find(':') == std::string::npos ? host : "[" + host + "]");
  }
  if (where.empty()) where = "127.0.0.1";
  runtime::Meeting::open(engine, std::move(tcp), std::move(local), secret, "", where + ":" + std::to_string(port));

  const Writer writer = Writer().u32(kMagic).u8(kVersion).u8(count).u16(port).raw(secret).raw(addresses);
  UniqueId id;
  std::copy(writer.bytes().begin(), writer.bytes().end(), id.bytes.begin());
  return id;
}

std::string UniqueId::to_hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

UniqueId UniqueId::from_hex(std::string_view text) {
  UniqueId id;
  if (text.size() != 2 * id.bytes.size())
    throw Error(ErrorCode::invalid_argument,
                "a unique id is 256 hexadecimal digits; this one has " + std::to_string(text.size()) + " characters");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = runtime::hex_digit(text[i]);
    if (digit < 0)
      throw Error(ErrorCode::invalid_argument, "a unique id is 256 hexadecimal digits; character " +
                                                   std::to_string(i + 1) + " of this one is not one of 0-9, a-f, A-F");
    id.bytes[i / 2] |= static_cast<std::byte>(i % 2 ? digit : digit << 4);
  }
  return id;
}

namespace runtime {

Job job_from_unique_id(const UniqueId& id, int rank, int size) {
  if (size < 1 || size > kMaxRanks)
    throw Error(ErrorCode::invalid_argument,
                "the number of ranks is " + std::to_string(size) + "; it must be 1 to " + std::to_string(kMaxRanks));
  if (rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                                 " ranks does not exist; it must be 0 to " + std::to_string(size - 1));
  Reader reader(id.bytes);
  if (reader.u32() != kMagic)
    throw Error(ErrorCode::invalid_argument, "this is not a unique id made by UniqueId::create()");
  if (const int version = reader.u8(); version != kVersion)
    throw Error(ErrorCode::invalid_argument, "the unique id has version " + std::to_string(version) +
                                                 ", this library reads version " + std::to_string(kVersion) +
                                                 ": use one version of the library everywhere");
  Job job;
  job.rank = rank;
  job.size = size;
  job.source = "unique id";
  const int count = reader.u8();
  job.meeting.port = reader.u16();
  const auto secret = reader.raw(job.meeting.secret.size());
  std::copy(secret.begin(), secret.end(), job.meeting.secret.begin());
  for (int i = 0; i < count; ++i) {
    std::string host = unpacked(reader);
    if (host.empty()) throw Error(ErrorCode::invalid_argument, "the unique id is damaged: an address cannot be read");
    job.meeting.hosts.push_back(std::move(host));
  }
  job.meeting.hosts.emplace_back("127.0.0.1");
  job.meeting.hosts.emplace_back("::1");
  return job;
}

}  // namespace runtime
}  // namespace tutti

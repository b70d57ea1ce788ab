#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>

#include "src/runtime/rendezvous.h"

namespace tutti::runtime {
namespace {

constexpr std::size_t kMaxHosts = 32;
constexpr std::size_t kMaxText = 256;

std::uint64_t inode_of(const char* path) {
  struct stat facts {};
  return ::stat(path, &facts) == 0 ? facts.st_ino : 0;
}

// 0x0201 on a little-endian machine, 0x0102 on a big-endian one.
constexpr std::uint16_t kByteOrder = std::bit_cast<std::uint16_t>(std::array<std::uint8_t, 2>{1, 2});

std::string clipped(const std::string& text) { return text.substr(0, kMaxText); }

void put(Writer& writer, const Member& member) {
  writer.u32(static_cast<std::uint32_t>(member.rank)).u32(static_cast<std::uint32_t>(member.pid));
  writer.text(clipped(member.host.name)).text(clipped(member.host.boot));
  writer.u64(member.host.network_namespace).u64(member.host.pid_namespace);
}

Member take_member(Reader& reader) {
  Member member;
  member.rank = static_cast<int>(reader.u32());
  member.pid = static_cast<std::int32_t>(reader.u32());
  member.host.name = clipped(reader.text());
  member.host.boot = clipped(reader.text());
  member.host.network_namespace = reader.u64();
  member.host.pid_namespace = reader.u64();
  return member;
}

void put(Writer& writer, const DoorAddress& address) {
  const auto hosts = std::min(address.hosts.size(), kMaxHosts);
  writer.text(address.local_name).u16(address.port).u8(static_cast<std::uint8_t>(hosts));
  for (std::size_t i = 0; i < hosts; ++i) writer.text(address.hosts[i]);
}

DoorAddress take_address(Reader& reader) {
  DoorAddress address;
  address.local_name = clipped(reader.text());
  address.port = reader.u16();
  const std::size_t hosts = std::min<std::size_t>(reader.u8(), kMaxHosts);
  for (std::size_t i = 0; i < hosts && reader.ok(); ++i) address.hosts.push_back(clipped(reader.text()));
  return address;
}

Nonce take_nonce(Reader& reader) {
  Nonce nonce{};
  const auto bytes = reader.raw(nonce.size());
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

}  // namespace

HostFacts HostFacts::of_this_process() {
  HostFacts facts;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) facts.name = name.data();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> facts.boot;
  facts.network_namespace = inode_of("/proc/self/ns/net");
  facts.pid_namespace = inode_of("/proc/self/ns/pid");
  return facts;
}

std::string Member::text() const {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on host " + host.name + ")";
}

bool Member::same_process(const Member& other) const {
  return pid == other.pid && host.boot == other.host.boot && host.pid_namespace == other.host.pid_namespace;
}

Hello Hello::of_this_process(int rank, int size, const std::string& job) {
  Hello hello;
  hello.byte_order = kByteOrder;
  hello.library = kLibraryVersion;
  hello.instance = random_nonce();
  hello.job = clipped(job);
  hello.size = static_cast<std::uint32_t>(size);
  hello.member = {rank, static_cast<std::int32_t>(::getpid()), HostFacts::of_this_process()};
  return hello;
}

// The first two fields and the library's version stay where they are in all versions of the protocol.
Bytes encode(const Hello& hello) {
  Writer writer;
  writer.u16(hello.wire).u16(hello.byte_order).text(hello.library).u32(static_cast<std::uint32_t>(hello.member.rank));
  writer.raw(hello.instance).text(hello.job).u32(hello.size);
  put(writer, hello.member);
  put(writer, hello.centre);
  writer.raw(hello.session);
  return writer.bytes();
}

std::optional<Hello> decode_hello(const Bytes& bytes) {
  Reader reader(bytes);
  Hello hello;
  hello.wire = reader.u16();
  hello.byte_order = reader.u16();
  hello.library = clipped(reader.text());
  const auto rank = reader.u32();
  if (!reader.ok()) return std::nullopt;
  hello.member.rank = static_cast<int>(rank);
  if (hello.wire != kWireVersion) return hello;  // the rest may look different
  hello.instance = take_nonce(reader);
  hello.job = clipped(reader.text());
  hello.size = reader.u32();
  hello.member = take_member(reader);
  hello.centre = take_address(reader);
  hello.session = take_nonce(reader);
  const bool fits = hello.size >= 1 && hello.size <= kMaxRanks && hello.member.rank >= 0 &&
                    static_cast<std::uint32_t>(hello.member.rank) < hello.size;
  return reader.complete() && fits ? std::optional(hello) : std::nullopt;
}

Bytes encode(const Roster& roster) {
  Writer writer;
  writer.raw(roster.session);
  put(writer, roster.centre);
  writer.u32(static_cast<std::uint32_t>(roster.members.size()));
  for (const Member& member : roster.members) put(writer, member);
  return writer.bytes();
}

std::optional<Roster> decode_roster(const Bytes& bytes) {
  Reader reader(bytes);
  Roster roster;
  roster.session = take_nonce(reader);
  roster.centre = take_address(reader);
  const std::uint32_t members = reader.u32();
  for (std::uint32_t i = 0; i < members && reader.ok(); ++i) roster.members.push_back(take_member(reader));
  return reader.complete() ? std::optional(std::move(roster)) : std::nullopt;
}

std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    text += (i ? ", " : "") + std::to_string(ranks[i]) + (end > i ? "-" + std::to_string(ranks[end]) : "");
    i = end + 1;
  }
  return text;
}

}  // namespace tutti::runtime

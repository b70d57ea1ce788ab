#include "src/runtime/facts.h"

#include <limits.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "src/base/log.h"
#include "src/runtime/parking.h"
#include "src/runtime/wire.h"
#include "src/topology/topology.h"

namespace tutti::runtime {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlink(path, target.data(), target.size());
  target.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return target;
}

// Ranks with equal tokens run under one kernel and see each other's abstract sockets: whatever the host is called.
std::string host_token() {
  return first_line("/proc/sys/kernel/random/boot_id") + " " + link_target("/proc/self/ns/net");
}

std::string hostname() {
  std::string name(HOST_NAME_MAX + 1, '\0');
  ::gethostname(name.data(), name.size() - 1);
  name.resize(name.find('\0'));
  return name;
}

template <class Value>
void check_equal(const std::vector<Facts>& facts, const std::string& variable, Value Facts::*field) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank)
    if (facts[rank].*field != facts[0].*field)
      throw Error(ErrorCode::invalid_argument, variable + " differs between ranks: rank 0 has '" + facts[0].*field +
                                                   "', rank " + std::to_string(rank) + " has '" + facts[rank].*field +
                                                   "'; give all ranks the same");
}

// The text of what this machine's profile says of `size` ranks; empty when it says nothing.
std::string profile_for(int size) {
  const planner::Profile profile = planner::load_profile();
  if (profile.tables.empty()) return {};
  if (const std::string warning = planner::mismatch(profile, planner::this_machine()); !warning.empty())
    base::log(base::LogLevel::warn, warning);
  return planner::to_text(profile.reduced_to(size));
}

}  // namespace

Facts facts_of_this_rank(const Config& config, int rank, int size) {
  Facts facts;
  facts.host = host_token();
  facts.hostname = hostname();
  const topology::Standing standing = topology::standing();
  facts.place = standing.place;
  facts.cores = standing.cores;
  facts.usable_cores = standing.usable_cores;
  facts.scheduling_group = topology::scheduling_group();
  facts.barriers = register_for_barriers();
  randombytes_buf(&facts.nonce, sizeof facts.nonce);
  facts.buffer_limit = config.buffer_limit;
  facts.algorithm = config.algorithm;
  facts.transport = config.transport;
  if (rank == 0) facts.profile = profile_for(size);
  return facts;
}

// Every rank reads what all ranks have written, so it is the plain fields of wire.h.
Blob to_blob(const Facts& facts) {
  const topology::RankPlace& at = facts.place;
  Writer writer;
  writer.text(facts.host).text(facts.hostname).text(facts.scheduling_group).text(topology::format_ranges(facts.cores));
  for (const int number : {at.package, at.numa, at.l3, at.core, facts.usable_cores, facts.barriers ? 1 : 0})
    writer.u32(static_cast<std::uint32_t>(number));
  writer.u64(facts.nonce).u64(facts.buffer_limit).text(facts.algorithm).text(facts.transport).text(facts.profile);
  return writer.bytes();
}

Facts facts_from_blob(const Blob& blob, int rank) {
  Reader reader(blob);
  Facts facts;
  facts.host = reader.text();
  facts.hostname = reader.text();
  facts.scheduling_group = reader.text();
  facts.cores = topology::parse_ranges(reader.text());
  topology::RankPlace& at = facts.place;
  for (int* const number : {&at.package, &at.numa, &at.l3, &at.core, &facts.usable_cores})
    *number = static_cast<int>(reader.u32());
  facts.barriers = reader.u32() == 1;
  facts.nonce = reader.u64();
  facts.buffer_limit = reader.u64();
  facts.algorithm = reader.text();
  facts.transport = reader.text();
  facts.profile = reader.text();
  if (!reader.complete() || facts.cores.empty())
    throw Error(ErrorCode::internal_error, "rank " + std::to_string(rank) + " sent facts that cannot be read: " +
                                               std::to_string(blob.size()) + " bytes");
  return facts;
}

std::vector<int> hosts_of(const std::vector<Facts>& facts) {
  std::map<std::string, int> number;
  std::vector<int> hosts;
  for (const Facts& rank : facts)
    hosts.push_back(number.try_emplace(rank.host, static_cast<int>(number.size())).first->second);
  return hosts;
}

bool one_scheduling_group(const std::vector<Facts>& facts, const std::vector<int>& host_of_rank) {
  std::map<int, const std::string*> group_on;
  for (std::size_t rank = 0; rank < facts.size(); ++rank)
    if (*group_on.try_emplace(host_of_rank[rank], &facts[rank].scheduling_group).first->second !=
        facts[rank].scheduling_group)
      return false;
  return true;
}

void check_agreement(const std::vector<Facts>& facts) {
  check_equal(facts, "the algorithm (TUTTI_ALGO or Config::algorithm)", &Facts::algorithm);
  check_equal(facts, "the transport (TUTTI_TRANSPORT or Config::transport)", &Facts::transport);
}

planner::World world_of(const std::vector<Facts>& facts) {
  planner::World world;
  world.ranks = static_cast<int>(facts.size());
  world.host_of_rank = hosts_of(facts);
  std::vector<topology::RankPlace> places;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    places.push_back(facts[rank].place);
    places.back().host = world.host_of_rank[rank];
  }
  world.order = topology::order_ranks(places);
  // The planner reckons with the fullest host's cores.
  const auto fullest = static_cast<std::size_t>(world.ranks_of_fullest_host());
  std::map<int, std::vector<topology::Standing>> ranks_on;
  for (std::size_t rank = 0; rank < facts.size(); ++rank)
    ranks_on[world.host_of_rank[rank]].push_back({places[rank], facts[rank].cores, facts[rank].usable_cores});
  for (const auto& [host, ranks] : ranks_on) {
    if (ranks.size() != fullest) continue;
    const int cores = topology::usable_cores(ranks);
    if (world.cores_per_host == 0 || cores < world.cores_per_host) world.cores_per_host = cores;
  }
  world.buffer_limit = facts[0].buffer_limit;
  for (const Facts& rank : facts) world.buffer_limit = std::min<std::size_t>(world.buffer_limit, rank.buffer_limit);
  world.forced_algorithm = facts[0].algorithm;
  if (!facts[0].profile.empty()) world.profile = planner::parse_profile(facts[0].profile, "of rank 0");
  return world;
}

}  // namespace tutti::runtime

// What every rank tells all others when they meet, so that all of them plan alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/planner/profile.h"
#include "src/planner/world.h"
#include "src/runtime/transport.h"
#include "src/topology/rank_order.h"
#include "tutti/communicator.h"

namespace tutti::runtime {

struct Facts {
  std::string host;      // equal for ranks that can share memory: boot id and network namespace
  std::string hostname;  // for people
  topology::RankPlace place;
  std::string scheduling_group;  // topology::scheduling_group
  std::vector<int> cores;        // topology::Standing
  int usable_cores = 1;
  bool barriers = false;    // register_for_barriers() has worked
  std::uint64_t nonce = 0;  // rank 0's names the communicator
  std::uint64_t buffer_limit = 0;
  std::string algorithm;
  std::string transport;
  std::string profile;  // of rank 0, as far as it speaks of this many ranks; some kilobytes (see planner/profile.h)
};

// Reads the profile on rank 0 and warns there when it is another machine's.
Facts facts_of_this_rank(const Config& config, int rank, int size);
Blob to_blob(const Facts& facts);
// Throws Error(internal_error) that names the rank when the bytes make no sense.
Facts facts_from_blob(const Blob& blob, int rank);

// Numbers the hosts in the order of their lowest rank.
std::vector<int> hosts_of(const std::vector<Facts>& facts);

// Whether all ranks of each host are in one scheduling group.
bool one_scheduling_group(const std::vector<Facts>& facts, const std::vector<int>& host_of_rank);

// Throws Error(invalid_argument) when ranks were given different algorithms or transports, naming both.
void check_agreement(const std::vector<Facts>& facts);

planner::World world_of(const std::vector<Facts>& facts);

}  // namespace tutti::runtime

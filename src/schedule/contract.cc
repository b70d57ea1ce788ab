#include "src/schedule/contract.h"

#include <map>

#include "src/schedule/collectives.h"

namespace tutti::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<Contribution> of_all_ranks(int ranks, int chunk) {
  std::vector<Contribution> set;
  for (int rank = 0; rank < ranks; ++rank) set.push_back({rank, chunk});
  return set;
}

// What chunk `c` of a rank's output must hold, `block` chunks being a block.
std::vector<Contribution> required(const Schedule& schedule, int rank, int c, int block) {
  switch (schedule.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::barrier: return of_all_ranks(schedule.ranks, c);
    case Collective::reduce_scatter: return of_all_ranks(schedule.ranks, rank * block + c);
    case Collective::broadcast: return {{schedule.root, c}};
    case Collective::scatter: return {{schedule.root, rank * block + c}};
    case Collective::all_gather:
    case Collective::gather: return {{c / block, c % block}};
    case Collective::all_to_all: return {{c / block, rank * block + c % block}};
  }
  return {};
}

}  // namespace

Contract contract_of(const Schedule& schedule) {
  const int ranks = schedule.ranks, block = schedule.output_chunks / schedule.output_blocks;
  Contract contract;
  contract.set_of.assign(at(ranks), std::vector<int>(at(schedule.output_chunks), Contract::kUnlisted));
  if (schedule.collective == Collective::barrier && ranks == 1) return contract;
  std::map<std::vector<Contribution>, int> known;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!has_output(schedule.collective, schedule.root, rank)) continue;
    for (int c = 0; c < schedule.output_chunks; ++c) {
      const auto [set, is_new] =
          known.insert({required(schedule, rank, c, block), static_cast<int>(contract.sets.size())});
      if (is_new) contract.sets.push_back(set->first);
      contract.set_of[at(rank)][at(c)] = set->second;
    }
  }
  return contract;
}

}  // namespace tutti::schedule

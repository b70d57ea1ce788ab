#include "src/schedule/contract.h"

#include <numeric>

namespace tutti::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<Contribution> of_all_ranks(int ranks, int chunk) {
  std::vector<Contribution> set;
  for (int rank = 0; rank < ranks; ++rank) set.push_back({rank, chunk});
  return set;
}

}  // namespace

Contract contract_of(const Schedule& schedule) {
  const int ranks = schedule.ranks, chunks = schedule.output_chunks, block = schedule.input_chunks;
  Contract contract;
  std::vector<int> row(at(chunks), Contract::kUnlisted);
  if (schedule.collective != Collective::barrier || ranks > 1) std::iota(row.begin(), row.end(), 0);
  contract.set_of.assign(at(ranks), row);
  for (int c = 0; c < chunks; ++c) {
    switch (schedule.collective) {
      case Collective::all_reduce:
      case Collective::barrier: contract.sets.push_back(of_all_ranks(ranks, c)); break;
      case Collective::broadcast: contract.sets.push_back({{schedule.root, c}}); break;
      case Collective::all_gather: contract.sets.push_back({{c / block, c % block}}); break;
    }
  }
  return contract;
}

}  // namespace tutti::schedule

// One rank of two_hosts_test.sh: splits its communicator into two, then rank VICTIM dies and the others go on without.
// Usage: regroup_ranks VICTIM. Exit status 0: every sum was right; the victim is killed by its own signal.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tutti/communicator.h"

namespace {

// Sums `value` over the ranks, as messages of one slot and of many.
bool sums_to(tutti::Communicator& communicator, int value, int expected) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'001}}) {
    std::vector<int> data(count, value);
    communicator.all_reduce(std::span(data));
    for (const int sum : data)
      if (sum != expected) return false;
  }
  return true;
}

int play(int victim) {
  tutti::Communicator world = tutti::Communicator::connect();
  const int rank = world.rank(), size = world.size();
  auto half = world.split(rank % 2, -rank);
  int expected = 0;
  for (int r = rank % 2; r < size; r += 2) expected += r;
  if (!sums_to(*half, rank, expected)) return std::puts("a wrong sum after split()"), 1;
  if (rank == victim) ::kill(::getpid(), SIGKILL);
  try {
    for (;;) world.barrier();
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::remote_error) throw;
  }
  tutti::Communicator rest = world.shrink(std::span(&victim, 1));
  if (rest.size() != size - 1 || rest.rank() != rank - (rank > victim)) return std::puts("a wrong rank or size"), 1;
  if (!sums_to(rest, rank, size * (size - 1) / 2 - victim)) return std::puts("a wrong sum after shrink()"), 1;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::puts("usage: regroup_ranks VICTIM"), 2;
  try {
    return play(std::atoi(arguments[1]));
  } catch (const std::exception& error) {
    return std::puts(error.what()), 1;
  }
}

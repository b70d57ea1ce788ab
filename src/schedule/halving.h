// Ranges of ranks that are split in two again and again: how the logarithmic algorithms for blocks pair ranks, whatever
// their number. Blocks stay where they lie, since the blocks of a range are neighbours.
#pragma once

#include <vector>

namespace tutti::schedule {

// [begin, middle) and [middle, end): the first half has as many ranks as the second, or one more. Rank begin + i and
// rank middle + i are partners. A rank without one, the last of a first half, shares the partner of the rank before.
struct Split {
  int begin = 0, middle = 0, end = 0;

  int partner(int rank) const {
    if (rank >= middle) return begin + rank - middle;
    return rank - begin < end - middle ? middle + rank - begin : end - 1;
  }
  // Whether the last of the second half has two partners, the last two of the first.
  bool uneven() const { return middle - begin > end - middle; }
  // All that have this rank as their partner.
  std::vector<int> partners_of(int rank) const {
    if (rank >= middle) {
      std::vector<int> partners{partner(rank)};
      if (rank == end - 1 && uneven()) partners.push_back(middle - 1);
      return partners;
    }
    return rank == middle - 1 && uneven() ? std::vector<int>{} : std::vector<int>{partner(rank)};
  }
};

// The splits that a rank takes part in, from that of all ranks down to that of the last two or three; ceil(log2 n) or
// one fewer.
std::vector<Split> splits_of(int rank, int ranks);

}  // namespace tutti::schedule

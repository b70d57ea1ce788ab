// Which ranks make up the communicators that split(), shrink() and grow() give.
#pragma once

#include <span>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::runtime {

// Of split(): the ranks of this color, in their new order; empty for kNoColor. All ranks call it.
std::vector<int> members_of_color(Communicator& self, int color, int key);

// Of shrink(), without a message.
std::vector<int> members_without(const Communicator& self, std::span<const int> left_out);

// Of grow(): the id that some rank gives. All ranks call it.
UniqueId common_id(Communicator& self, int size, const UniqueId* id);

}  // namespace tutti::runtime

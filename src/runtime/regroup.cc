// Which ranks make up the communicators that split(), shrink() and grow() give.
#include "src/runtime/regroup.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tutti::runtime {
namespace {

std::string rank_text(const Communicator& self) { return "rank " + std::to_string(self.rank()); }

}  // namespace

std::vector<int> members_of_color(Communicator& self, int color, int key) {
  if (color < 0 && color != Communicator::kNoColor)
    throw Error(ErrorCode::invalid_argument, rank_text(self) + ": the color is " + std::to_string(color) +
                                                 "; valid: 0 and more, or kNoColor (-1) to be in none");
  struct Choice {
    std::int32_t color, key;
  };
  const Choice own{color, key};
  std::vector<Choice> choices(static_cast<std::size_t>(self.size()));
  self.all_gather(&own, choices.data(), 2, DataType::int32);
  std::vector<int> members;
  if (color == Communicator::kNoColor) return members;
  for (int rank = 0; rank < self.size(); ++rank)
    if (choices[static_cast<std::size_t>(rank)].color == color) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  return members;
}

std::vector<int> members_without(const Communicator& self, std::span<const int> left_out) {
  std::vector<bool> stays(static_cast<std::size_t>(self.size()), true);
  for (const int rank : left_out) {
    if (rank < 0 || rank >= self.size())
      throw Error(ErrorCode::invalid_argument, rank_text(self) + ": rank " + std::to_string(rank) +
                                                   " is to be left out; valid: 0 to " +
                                                   std::to_string(self.size() - 1));
    if (rank == self.rank())
      throw Error(ErrorCode::invalid_argument,
                  rank_text(self) + " is to be left out itself; only ranks that stay call shrink()");
    if (!stays[static_cast<std::size_t>(rank)])
      throw Error(ErrorCode::invalid_argument,
                  rank_text(self) + ": rank " + std::to_string(rank) + " is to be left out twice");
    stays[static_cast<std::size_t>(rank)] = false;
  }
  std::vector<int> members;
  for (int rank = 0; rank < self.size(); ++rank)
    if (stays[static_cast<std::size_t>(rank)]) members.push_back(rank);
  return members;
}

UniqueId common_id(Communicator& self, int size, const UniqueId* id) {
  if (size <= self.size())
    throw Error(ErrorCode::invalid_argument, rank_text(self) + ": it is to grow to " + std::to_string(size) +
                                                 " ranks; valid: more than the " + std::to_string(self.size()) +
                                                 " there are");
  using Offer = std::array<std::byte, 1 + sizeof(UniqueId)>;
  Offer own{};
  if (id != nullptr) {
    own[0] = std::byte{1};
    std::memcpy(own.data() + 1, id, sizeof *id);
  }
  std::vector<Offer> offers(static_cast<std::size_t>(self.size()));
  self.all_gather(own.data(), offers.data(), own.size(), DataType::uint8);
  const Offer* found = nullptr;
  for (const Offer& offer : offers) {
    if (offer[0] == std::byte{0}) continue;
    if (found != nullptr && *found != offer)
      throw Error(ErrorCode::invalid_usage, "ranks " + std::to_string(found - offers.data()) + " and " +
                                                std::to_string(&offer - offers.data()) +
                                                " give different unique ids to grow by; give one");
    found = &offer;
  }
  if (found == nullptr)
    throw Error(ErrorCode::invalid_usage, "no rank gives a unique id to grow by; one must, the one the new ranks have");
  UniqueId common;
  std::memcpy(&common, found->data() + 1, sizeof common);
  return common;
}

}  // namespace tutti::runtime

// Messages between two ranks, as a Communicator's caller sees them: what is refused, and the collectives made of them.
#include <string>
#include <vector>

#include "src/runtime/communicator.h"

namespace tutti {
namespace {

using Direction = Transfer::Direction;
using Sizes = std::span<const std::size_t>;

[[noreturn]] void refuse(int rank, ErrorCode code, const std::string& what) {
  throw Error(code, "rank " + std::to_string(rank) + ": " + what);
}

std::string in_words(const Transfer& transfer) {
  return std::string(name_of(transfer.type)) + " x " + std::to_string(transfer.count);
}

void check(const Transfer& transfer, std::size_t index, std::size_t transfers, int rank, int size) {
  const auto reject = [&](const std::string& what) {
    refuse(rank, ErrorCode::invalid_argument,
           "transfer " + std::to_string(index + 1) + " of " + std::to_string(transfers) + ": " + what);
  };
  if (transfer.direction != Direction::send && transfer.direction != Direction::receive)
    reject("the direction is " + std::to_string(static_cast<unsigned>(transfer.direction)) +
           "; valid: 0 (send) and 1 (receive)");
  if (static_cast<unsigned>(transfer.type) >= static_cast<unsigned>(kDataTypes))
    reject("the data type is " + std::to_string(static_cast<unsigned>(transfer.type)) + "; valid: 0 to " +
           std::to_string(kDataTypes - 1));
  if (transfer.peer < 0 || transfer.peer >= size)
    reject("the peer is " + std::to_string(transfer.peer) + "; valid: 0 to " + std::to_string(size - 1));
  if (transfer.count > std::size_t{1} << 48)
    reject("the count " + std::to_string(transfer.count) + " is too large: the buffer would exceed the address space");
  if (transfer.data == nullptr && transfer.count != 0)
    reject("the buffer is null but the count is " + std::to_string(transfer.count));
}

// The next transfer, from `index` on, of this rank with itself in that direction; the number of transfers without any.
std::size_t next_own(std::span<const Transfer> transfers, std::size_t index, int rank, Direction direction) {
  while (index < transfers.size() && (transfers[index].peer != rank || transfers[index].direction != direction))
    ++index;
  return index;
}

// What a rank sends to itself it receives in the same call.
void check_own(std::span<const Transfer> transfers, int rank) {
  std::size_t send = 0, receive = 0;
  for (std::size_t number = 1;; ++number, ++send, ++receive) {
    send = next_own(transfers, send, rank, Direction::send);
    receive = next_own(transfers, receive, rank, Direction::receive);
    const bool sends = send < transfers.size(), receives = receive < transfers.size();
    if (!sends && !receives) return;
    const std::string nth = " number " + std::to_string(number);
    if (!receives)
      refuse(rank, ErrorCode::invalid_usage,
             "send" + nth + " to itself, of " + in_words(transfers[send]) + ", has no receive in the same exchange");
    if (!sends)
      refuse(
          rank, ErrorCode::invalid_usage,
          "receive" + nth + " from itself, of " + in_words(transfers[receive]) + ", has no send in the same exchange");
    if (transfers[send].count != transfers[receive].count || transfers[send].type != transfers[receive].type)
      refuse(rank, ErrorCode::invalid_usage,
             "send" + nth + " to itself is " + in_words(transfers[send]) + ", but its receive expects " +
                 in_words(transfers[receive]));
  }
}

void check_all(std::span<const Transfer> transfers, int rank, int size) {
  bool own = false;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    check(transfers[i], i, transfers.size(), rank, size);
    own = own || transfers[i].peer == rank;
  }
  if (own) check_own(transfers, rank);
}

void check_type(int rank, DataType type) {
  if (static_cast<unsigned>(type) >= static_cast<unsigned>(kDataTypes))
    refuse(rank, ErrorCode::invalid_argument,
           "the data type is " + std::to_string(static_cast<unsigned>(type)) + "; valid: 0 to " +
               std::to_string(kDataTypes - 1));
}

void check_sizes(const Communicator& self, const char* name, Sizes sizes) {
  if (sizes.size() != static_cast<std::size_t>(self.size()))
    refuse(self.rank(), ErrorCode::invalid_argument,
           std::string("there are ") + std::to_string(sizes.size()) + " " + name + "; valid: one per rank, " +
               std::to_string(self.size()));
}

void check_root(const Communicator& self, int root) {
  if (root < 0 || root >= self.size())
    refuse(self.rank(), ErrorCode::invalid_argument,
           "the root is " + std::to_string(root) + "; valid: 0 to " + std::to_string(self.size() - 1));
}

// A block of a buffer of several.
Transfer block(Direction direction, const void* data, Sizes counts, Sizes offsets, DataType type, int peer) {
  const auto index = static_cast<std::size_t>(peer);
  auto* const bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return {direction, bytes == nullptr ? nullptr : bytes + offsets[index] * size_of(type), counts[index], type, peer};
}

}  // namespace

void Communicator::exchange(std::span<const Transfer> transfers) {
  check_all(transfers, rank(), size());
  impl().runner->run(transfers);
}

Work Communicator::exchange_async(std::span<const Transfer> transfers) {
  check_all(transfers, rank(), size());
  return Work(impl().runner->submit(transfers));
}

void Communicator::send(const void* data, std::size_t count, DataType type, int peer) {
  const Transfer transfer{Direction::send, const_cast<void*>(data), count, type, peer};
  exchange({&transfer, 1});
}

void Communicator::receive(void* data, std::size_t count, DataType type, int peer) {
  const Transfer transfer{Direction::receive, data, count, type, peer};
  exchange({&transfer, 1});
}

// Every rank begins with the rank after itself, so that not all of them send to the same one at first.
void Communicator::all_to_all_v(const void* input, Sizes input_counts, Sizes input_offsets, void* output,
                                Sizes output_counts, Sizes output_offsets, DataType type) {
  check_type(rank(), type);
  check_sizes(*this, "input counts", input_counts);
  check_sizes(*this, "input offsets", input_offsets);
  check_sizes(*this, "output counts", output_counts);
  check_sizes(*this, "output offsets", output_offsets);
  std::vector<Transfer> transfers;
  transfers.reserve(2 * input_counts.size());
  for (int distance = 0; distance < size(); ++distance) {
    const int to = (rank() + distance) % size(), from = (rank() - distance + size()) % size();
    transfers.push_back(block(Direction::send, input, input_counts, input_offsets, type, to));
    transfers.push_back(block(Direction::receive, output, output_counts, output_offsets, type, from));
  }
  exchange(transfers);
}

void Communicator::gather_v(const void* input, std::size_t count, void* output, Sizes counts, Sizes offsets,
                            DataType type, int root) {
  check_type(rank(), type);
  check_root(*this, root);
  std::vector<Transfer> transfers{{Direction::send, const_cast<void*>(input), count, type, root}};
  if (rank() == root) {
    check_sizes(*this, "counts", counts);
    check_sizes(*this, "offsets", offsets);
    for (int from = 0; from < size(); ++from)
      transfers.push_back(block(Direction::receive, output, counts, offsets, type, from));
  }
  exchange(transfers);
}

void Communicator::scatter_v(const void* input, Sizes counts, Sizes offsets, void* output, std::size_t count,
                             DataType type, int root) {
  check_type(rank(), type);
  check_root(*this, root);
  std::vector<Transfer> transfers{{Direction::receive, output, count, type, root}};
  if (rank() == root) {
    check_sizes(*this, "counts", counts);
    check_sizes(*this, "offsets", offsets);
    for (int to = 0; to < size(); ++to) transfers.push_back(block(Direction::send, input, counts, offsets, type, to));
  }
  exchange(transfers);
}

}  // namespace tutti

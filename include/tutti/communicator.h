// A communicator: the ranks that play one collective together.
//
//   tutti::Communicator world = tutti::Communicator::connect();      // rank and size from the launcher's environment
//   std::vector<float> gradients(n);
//   world.all_reduce(std::span(gradients), tutti::ReduceOp::avg);    // the same bits on every rank afterwards
//
// Every rank of a communicator makes the same calls in the same order with the same count, type, op and root; calls
// that do not match end in an Error on every rank that names both calls.
//
// Messages between two ranks (exchange, send, receive and what is made of them) concern these two: the others make
// other such calls, or none. Between any two collectives a rank may make as many as it likes.
//
// Thread safety: one thread at a time calls a communicator (a second one gets Error(invalid_usage)), except for
// abort(), which any thread may call at any time. Different communicators are independent.
// Blocking: collectives return when this rank's output is complete and its input may be overwritten.
// Errors: Error, with a message that names ranks; after remote_error, timeout or aborted the communicator can only be
// shrunk and destroyed. The destructor never waits for other ranks longer than a short stated bound (kLeaveTimeout).
// One that was moved from can be destroyed and assigned to; all else throws Error(invalid_usage).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"
#include "tutti/transfer.h"
#include "tutti/types.h"
#include "tutti/unique_id.h"

namespace tutti {

// How long the destructor waits for data that slower peers have yet to take.
inline constexpr std::chrono::milliseconds kLeaveTimeout{2000};

struct Config {
  std::chrono::milliseconds timeout{600'000};        // of one operation, from the call
  std::chrono::milliseconds init_timeout{300'000};   // of connect()
  std::size_t buffer_limit = std::size_t{64} << 20;  // bytes of slot memory this rank may use
  std::string algorithm;                             // force one ("ring", "tree", ...); empty: the planner chooses
  std::string transport;                             // force one ("shm", "tcp"); empty: the best that works

  // Fields given by TUTTI_TIMEOUT, TUTTI_INIT_TIMEOUT, TUTTI_BUFFER_LIMIT, TUTTI_ALGO and TUTTI_TRANSPORT replace the
  // defaults above. Throws Error(invalid_argument) that names the variable, its value and the valid ones.
  static Config from_environment();
};

// What the planner chose for a call, for tools and logs.
struct PlanInfo {
  std::string algorithm;
  std::size_t slice_bytes = 0;
  std::size_t rounds = 0;
  double predicted_us = 0;
  std::string runner_up;
  double runner_up_us = 0;
};

// A call of any collective, for Communicator::start(). What the collective has no use for is ignored.
struct CollectiveCall {
  Collective collective = Collective::all_reduce;
  // May be null when count is 0, and where the rank has none: off the root, the input of broadcast and scatter, and the
  // output of reduce and gather.
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // elements per block
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::optional<Factor> factor{};  // of ReduceOp::premul_sum; this rank's own, ranks need not agree
};

// A call in progress. Movable, owns the operation: the destructor waits for it (and swallows its error). One that holds
// no operation (default-made, moved from) can be destroyed and assigned to; wait() and test() throw
// Error(invalid_usage).
class Work {
 public:
  struct State;
  Work() = default;
  explicit Work(std::shared_ptr<State> state);
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept;
  ~Work();

  void wait();  // blocks until the operation is complete; throws its Error
  // True when it is complete, failed or not. Never blocks, but moves what can be moved: a look now and then helps.
  bool test() const;

 private:
  State& state() const;
  std::shared_ptr<State> state_;
};

class Communicator {
 public:
  // From the environment of torchrun, `tutti run`, srun, Open MPI or MPICH; alone (one rank) without any of them.
  static Communicator connect(const Config& config = Config::from_environment());
  static Communicator connect(const UniqueId& id, int rank, int size,
                              const Config& config = Config::from_environment());
  // All ranks of a job in this process, one per thread of the caller's; element i is rank i.
  static std::vector<Communicator> connect_threads(int size, const Config& config = Config::from_environment());

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  int local_size() const;
  const Config& config() const;  // as this communicator uses it

  // output[i] = op over all ranks of input[i]. input == output is allowed, any other overlap is not.
  void all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum);
  Work all_reduce_async(const void* input, void* output, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum);
  // output[i] = sum over all ranks of input[i] * that rank's factor (ReduceOp::premul_sum). Factors need not be equal.
  void all_reduce(const void* input, void* output, std::size_t count, DataType type, Factor factor);
  Work all_reduce_async(const void* input, void* output, std::size_t count, DataType type, Factor factor);
  // data of `root` to every rank.
  void broadcast(void* data, std::size_t count, DataType type, int root);
  // output[r * count + i] = input[i] of rank r. input == output + rank * count is allowed (in place).
  void all_gather(const void* input, void* output, std::size_t count, DataType type);
  // Returns after every rank has called it.
  void barrier();
  // output[i] of `root` = op over all ranks of input[i]. input == output is allowed. Other ranks' outputs are not
  // touched and may be null.
  void reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root);
  // output[i] of rank r = op over all ranks of input[r * count + i]. output == input + rank * count is allowed.
  void reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);
  // output[r * count + i] = input[rank * count + i] of rank r. The buffers must not overlap.
  void all_to_all(const void* input, void* output, std::size_t count, DataType type);
  // output[r * count + i] of `root` = input[i] of rank r. At the root, input == output + root * count is allowed. Other
  // ranks' outputs are not touched and may be null.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root);
  // output[i] of rank r = input[r * count + i] of `root`. At the root, output == input + root * count is allowed. Other
  // ranks' inputs are not touched and may be null.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root);
  // Any collective, blocking; and the asynchronous form of any: the buffers must live, untouched, until the Work is
  // done.
  void run(const CollectiveCall& call);
  Work start(const CollectiveCall& call);

  // Sends and receives messages, all of which progress at once, so their order in the list matters only between
  // messages of one peer in one direction. Complete when what was sent may be overwritten and all is received that is
  // to be. A message of less than 16 KiB that fits into the free slots towards its peer is buffered, and waits for
  // nobody; a larger one may wait for its receive. A count or type other than the peer's is an Error(invalid_usage) on
  // all ranks that names both; so is, on this rank, what it sends to itself and does not receive in the same call.
  void exchange(std::span<const Transfer> transfers);
  Work exchange_async(std::span<const Transfer> transfers);  // the span is copied, the buffers are not
  // An exchange of one message.
  void send(const void* data, std::size_t count, DataType type, int peer);
  void receive(void* data, std::size_t count, DataType type, int peer);

  // Collectives whose blocks differ in size, as exchanges. Counts and offsets are in elements, one per rank; the blocks
  // of an output must not overlap. Both ends of a block must name the same count.
  // output[output_offsets[r] ...] = the input_counts[rank] elements at input_offsets[rank] of rank r.
  void all_to_all_v(const void* input, std::span<const std::size_t> input_counts,
                    std::span<const std::size_t> input_offsets, void* output,
                    std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                    DataType type);
  // At the root: output[offsets[r] ...] = the counts[r] elements of rank r's input, where input may be the rank's own
  // block of the output. Elsewhere output, counts and offsets are not looked at.
  void gather_v(const void* input, std::size_t count, void* output, std::span<const std::size_t> counts,
                std::span<const std::size_t> offsets, DataType type, int root);
  // The reverse: rank r's output = the counts[r] elements at offsets[r] of the root's input.
  void scatter_v(const void* input, std::span<const std::size_t> counts, std::span<const std::size_t> offsets,
                 void* output, std::size_t count, DataType type, int root);

  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum) {
    all_reduce(data.data(), data.data(), data.size(), data_type_of<T>(), op);
  }
  template <class T>
  Work all_reduce_async(std::span<T> data, ReduceOp op = ReduceOp::sum) {
    return all_reduce_async(data.data(), data.data(), data.size(), data_type_of<T>(), op);
  }
  template <class T>
  void broadcast(std::span<T> data, int root) {
    broadcast(data.data(), data.size(), data_type_of<T>(), root);
  }

  // Other communicators of these ranks. All of them (all that stay, for shrink) call alike. They block as connect()
  // does, and leave this communicator as it is. Config: this one's, unless another is given.
  //
  // The ranks that give equal colors, in the order of (key, rank); none for kNoColor. A color is not negative.
  static constexpr int kNoColor = -1;
  std::optional<Communicator> split(int color, int key);
  std::optional<Communicator> split(int color, int key, const Config& config);
  // Without the ranks `left_out`, in the same order. Needs nothing of those, nor of this communicator: it may have
  // failed, because one of them died, and then still be shrunk.
  Communicator shrink(std::span<const int> left_out);
  Communicator shrink(std::span<const int> left_out, const Config& config);
  // With more ranks, `size` in all, which keep the ranks of these; the new ones call connect(id, rank, size) with ranks
  // from size() on. One rank of these, or several, give the id that the new ones have; the others null.
  Communicator grow(int size, const UniqueId* id);
  Communicator grow(int size, const UniqueId* id, const Config& config);

  // Ends every operation in progress, here and on all other ranks, with Error(aborted). Returns within a second.
  void abort(const std::string& reason);

  // What ended this communicator, here or on another rank; nothing while it may still be of use, as it may after a rank
  // has died for whom nothing waits. Any thread may ask, at any time.
  std::optional<Error> failure() const;

  PlanInfo explain(Collective collective, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum) const;
  // The algorithms that Config::algorithm may force for this collective and communicator.
  std::vector<std::string> algorithms(Collective collective) const;
  // Forces (or with an empty name frees) the algorithm of later calls; every rank must do the same.
  void force_algorithm(const std::string& name);

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

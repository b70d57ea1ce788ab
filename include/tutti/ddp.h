// Data-parallel training: every rank computes gradients on its own samples, Ddp averages them while the backward pass
// is still running, and all ranks take the same optimiser step.
//
//   tutti::Ddp ddp(world, model.parameters());        // checks that all ranks agree, takes rank 0's values
//   ddp.begin_backward(batch.size());                 // how many samples this rank's gradients are the mean of
//   model.backward(batch, [&](std::size_t p) { ddp.gradient_ready(p); });
//   ddp.finish();                                     // gradients now are those of the mean over all ranks' samples
//   optimizer.step();
//
// The averaging rule: rank r holds the mean gradient g_r of its n_r samples; afterwards every rank holds
// (sum of n_r g_r) / (sum of n_r), the same bits everywhere. Ranks may have different numbers of samples, also none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti {

class Communicator;
namespace ddp {
class Group;
}

// One tensor of the model. The memory is the caller's and must stay where it is for the life of the Ddp.
struct Parameter {
  std::string name;                   // unique in the model
  void* data = nullptr;               // the values: written once, at construction, on ranks other than 0
  void* gradient = nullptr;           // as many elements; nullptr for state that is not trained (running means, ...)
  std::vector<std::size_t> shape;     // {} is one number
  DataType type = DataType::float32;  // float32 or float64

  std::size_t count() const;  // product of the shape
  bool trained() const;       // has a gradient, or no elements
};

struct DdpOptions {
  // A bucket is the unit of communication: the gradients of some parameters, contiguous. Buckets are filled in reverse
  // order of registration, the order in which a backward pass finishes; a bucket takes parameters while they fit, one
  // at least. The first is small so that communication starts early. 0 gives every parameter its own.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  bool overlap = true;  // false: all buckets start in finish()
};

// Sums over the backward passes since construction or reset_statistics(), in seconds of this rank's clock.
struct DdpStatistics {
  std::size_t steps = 0;       // passes that communicated
  std::size_t bytes = 0;       // of gradients given to all-reduce
  double communication_s = 0;  // some bucket was in flight, as seen at each gradient_ready() and in finish()
  double exposed_s = 0;        // of it, finish() was waiting
  double hidden_s() const { return communication_s > exposed_s ? communication_s - exposed_s : 0; }
};

// Thread safety: one thread calls begin_backward(), finish() and the rest; between begin_backward() and finish() any
// threads may call gradient_ready(). In a pass that communicates the communicator is Ddp's alone from begin_backward()
// to the return of finish().
// Errors: Error; whatever is found wrong by comparing ranks is thrown on every rank, with one text. When a rank dies,
// gradient_ready() or finish() of the others throws the communicator's Error, which names it; this Ddp is then of no
// more use.
class Ddp {
 public:
  // Compares names, types, shapes and bucket sizes on all ranks, then gives every rank the values of rank 0. Blocks
  // until all ranks have done so. `communicator` must outlive the Ddp.
  Ddp(Communicator& communicator, std::vector<Parameter> parameters, DdpOptions options = {});
  // Over something else that can sum, for tests.
  Ddp(std::shared_ptr<ddp::Group> group, std::vector<Parameter> parameters, DdpOptions options = {});
  Ddp(Ddp&&) noexcept;
  Ddp& operator=(Ddp&&) noexcept;  // one that was moved from throws Error(invalid_usage) when it is used
  ~Ddp();                          // waits for buckets in flight

  // Starts a backward pass over `samples` samples of this rank. The gradients that follow are the *mean* over these
  // samples and overwrite those of the pass before. With 0 samples gradients are not read, nor is gradient_ready()
  // needed. Never blocks.
  void begin_backward(std::size_t samples);

  // The gradient of this parameter (its place in the list, or its name) is complete and will not change before
  // finish(). Copies it, and starts the all-reduce of each bucket whose turn has come: always in the same order on
  // all ranks, whatever the order of these calls. Does not wait for other ranks. Throws Error(invalid_usage), on this
  // rank alone, for the second call in a pass.
  void gradient_ready(std::size_t parameter);
  void gradient_ready(std::string_view name);

  // Ends the pass. Blocks until all buckets are reduced, puts the averages in place of the gradients and returns the
  // number of samples of all ranks (rounded to float32 precision beyond 2^24; when it is 0 the gradients are 0).
  // Throws Error(invalid_usage) on all ranks, naming parameters and ranks, when a gradient was never ready.
  // In a no_sync() scope: does not block, leaves gradients alone, returns this rank's samples so far.
  std::size_t finish();

  // While the object lives, passes only accumulate: Ddp adds up samples * gradient, and the first pass outside
  // averages over all samples of all these passes. All ranks must use it alike. Keep the backward pass overwriting its
  // gradients: the sum is kept here.
  class NoSync {
   public:
    NoSync(NoSync&& other) noexcept;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class Ddp;
    explicit NoSync(int* depth);
    int* depth_;
  };
  [[nodiscard]] NoSync no_sync();

  // Compares a 64-bit checksum of every parameter's bits on all ranks and returns that of all together. Throws
  // Error(invalid_usage) on every rank, naming the first parameter that differs and the ranks. Blocks.
  std::uint64_t assert_in_sync();

  DdpStatistics statistics() const;
  void reset_statistics();
  // The parameters of each bucket, in the order of communication.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

// Which samples a rank takes in an epoch: the indices of PyTorch's DistributedSampler for the same seed and epoch.
// Positions rank, rank + world, rank + 2 world, ... of one order that all ranks compute alike; no communication.
// Thread safety: const. Errors: Error(invalid_argument).
class DistributedSampler {
 public:
  enum class Tail {
    pad,        // repeat samples from the front (as often as needed) until all ranks have the same number
    drop_last,  // leave out the last samples % world
    uneven,     // every sample exactly once; ranks differ by up to one sample. For evaluation, and for training with
                // Ddp, which weighs by sample count
  };
  struct Options {
    bool shuffle = true;
    std::uint64_t seed = 0;  // the low 32 bits of seed + epoch count, as in PyTorch
    Tail tail = Tail::pad;
  };

  // Refuses no samples at all, drop_last with fewer samples than ranks (PyTorch trains on nothing then), and a
  // shuffle of 214,748,364 samples or more (PyTorch orders those by another rule).
  DistributedSampler(std::size_t samples, int world, int rank, Options options);
  DistributedSampler(std::size_t samples, int world, int rank) : DistributedSampler(samples, world, rank, Options{}) {}

  // This rank's samples in this epoch. The epoch is an argument so that it cannot be forgotten.
  std::vector<std::size_t> indices(std::uint64_t epoch) const;

  // This rank's share of each batch of `global_batch` samples over all ranks: batch k is positions k * global_batch ...
  // of the common order, whatever the number of ranks. The number of batches is the same on all ranks; a share may be
  // empty.
  std::vector<std::vector<std::size_t>> batches(std::uint64_t epoch, std::size_t global_batch) const;

  std::size_t total() const { return total_; }  // positions in an epoch over all ranks
  std::size_t size() const;                     // of them this rank's

 private:
  std::vector<std::size_t> order(std::uint64_t epoch) const;  // all positions

  std::size_t samples_;
  std::size_t total_;
  std::size_t world_;
  std::size_t rank_;
  Options options_;
};

}  // namespace tutti

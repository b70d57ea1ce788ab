// One backward pass:
//   begin_backward  marks every gradient as not ready
//   gradient_ready  bucket[p] (+)= samples * gradient[p]; a bucket whose last gradient came starts its all-reduce as
//                   soon as all buckets before it have started
//   finish          starts what is left, then per bucket: wait, gradient[p] = bucket[p] / total samples
// Bytes: each gradient is read and written once more on each way; the all-reduce carries 2 elements more per bucket.
#include "tutti/ddp.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "src/ddp/agreement.h"
#include "src/ddp/bucket_layout.h"
#include "src/ddp/group.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAlignment = 64;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Calls f with a null pointer of the element type.
template <class F>
void with_type(DataType type, F&& f) {
  if (type == DataType::float32)
    f(static_cast<float*>(nullptr));
  else
    f(static_cast<double*>(nullptr));
}

}  // namespace

std::size_t Parameter::count() const {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

bool Parameter::trained() const { return gradient != nullptr || count() == 0; }

struct Ddp::Impl {
  struct Bucket {
    ddp::BucketLayout layout;
    std::byte* data = nullptr;
    std::size_t pending = 0;               // gradients of this pass not ready yet
    std::unique_ptr<ddp::PendingSum> sum;  // while in flight
  };
  struct Place {  // of one parameter
    std::size_t bucket = 0;
    std::size_t offset = 0;
  };

  std::shared_ptr<ddp::Group> group;
  std::vector<Parameter> parameters;
  DdpOptions options;
  std::unordered_map<std::string_view, std::size_t> index_of;
  std::vector<Place> places;
  Memory memory;                // of all buckets, where the other ranks of this host reach it
  std::vector<Bucket> buckets;  // after memory: sums in flight end before it goes

  // The pass, and the passes accumulated so far.
  bool in_pass = false;
  bool synchronizes = true;  // this pass communicates
  int no_sync_depth = 0;
  std::size_t pass_samples = 0;
  std::size_t samples = 0;  // of all accumulated passes
  // Per parameter, in this pass. Relaxed: it only tells a first call from a second; what a call puts into a bucket is
  // ordered by the mutex, under which it counts `pending` down.
  std::vector<std::atomic<bool>> ready;
  std::vector<std::uint8_t> filled;   // its place in the bucket holds something of this step
  std::vector<std::uint8_t> missing;  // a pass ended without it being ready

  // Guards what follows and the communicator.
  std::mutex mutex;
  std::size_t next_bucket = 0;   // the first that has not started
  std::size_t first_flying = 0;  // the first that has not been seen complete
  Clock::time_point flying_since;
  DdpStatistics statistics;

  Impl(std::shared_ptr<ddp::Group> group_, std::vector<Parameter> parameters_, DdpOptions options_)
      : group(std::move(group_)),
        parameters(std::move(parameters_)),
        options(options_),
        places(parameters.size()),
        ready(parameters.size()),
        filled(parameters.size()),
        missing(parameters.size()) {
    ddp::check_agreement(*group, parameters, options);
    for (std::size_t p = 0; p < parameters.size(); ++p) index_of[parameters[p].name] = p;
    lay_out();
    for (const Parameter& parameter : parameters)
      group->broadcast({static_cast<std::byte*>(parameter.data), parameter.count() * size_of(parameter.type)}, 0);
  }

  void lay_out() {
    for (ddp::BucketLayout& layout : ddp::make_bucket_layouts(parameters, options)) {
      Bucket bucket;
      bucket.layout = std::move(layout);
      buckets.push_back(std::move(bucket));
    }
    const auto padded = [](const Bucket& b) {
      const std::size_t n = (b.layout.elements + ddp::kTrailerElements) * size_of(b.layout.type);
      return (n + kAlignment - 1) / kAlignment * kAlignment;
    };
    std::size_t bytes = 0;
    for (const Bucket& bucket : buckets) bytes += padded(bucket);
    memory = alloc(bytes);
    std::byte* next = memory.data();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      buckets[b].data = next;
      next += padded(buckets[b]);
      for (const auto& place : buckets[b].layout.places) places[place.parameter] = {b, place.offset};
    }
  }

  void begin(std::size_t n) {
    if (in_pass) throw Error(ErrorCode::invalid_usage, "Ddp: begin_backward() before finish() of the pass before.");
    pass_samples = n;
    samples += n;
    synchronizes = no_sync_depth == 0;
    for (auto& r : ready) r.store(false, std::memory_order_relaxed);
    const std::lock_guard lock(mutex);
    next_bucket = first_flying = 0;
    for (Bucket& bucket : buckets) bucket.pending = bucket.layout.places.size();
    in_pass = true;
  }

  void gradient_ready(std::size_t p) {
    if (p >= parameters.size() || !parameters[p].trained())
      throw Error(ErrorCode::invalid_argument, "Ddp: gradient_ready(" + std::to_string(p) +
                                                   ") names no parameter with a gradient; valid: 0 to " +
                                                   std::to_string(parameters.size() - 1) + ", those with a gradient.");
    if (!in_pass)
      throw Error(ErrorCode::invalid_usage, "Ddp: gradient_ready('" + parameters[p].name +
                                                "') outside a backward pass; call begin_backward() first.");
    if (ready[p].exchange(true, std::memory_order_relaxed))
      throw Error(ErrorCode::invalid_usage, "Ddp: on rank " + std::to_string(group->rank()) + " the gradient of '" +
                                                parameters[p].name +
                                                "' is ready a second time in one backward pass. "
                                                "Call gradient_ready() once, when its last contribution is in.");
    if (pass_samples > 0) take(p);
    const std::lock_guard lock(mutex);
    --buckets[places[p].bucket].pending;
    if (!synchronizes || !options.overlap) return;
    observe();
    while (next_bucket < buckets.size() && buckets[next_bucket].pending == 0) start_next();
  }

  // bucket (+)= samples * gradient
  void take(std::size_t p) {
    const Parameter& parameter = parameters[p];
    const Bucket& bucket = buckets[places[p].bucket];
    with_type(parameter.type, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const T weight = static_cast<T>(pass_samples);
      const T* from = static_cast<const T*>(parameter.gradient);
      T* to = reinterpret_cast<T*>(bucket.data) + places[p].offset;
      const std::size_t n = parameter.count();
      if (filled[p])
        for (std::size_t i = 0; i < n; ++i) to[i] += weight * from[i];
      else
        for (std::size_t i = 0; i < n; ++i) to[i] = weight * from[i];
    });
    filled[p] = 1;
  }

  // Starts the next bucket's sum. Under the mutex.
  void start_next() {
    Bucket& bucket = buckets[next_bucket];
    const ddp::BucketLayout& layout = bucket.layout;
    with_type(layout.type, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      T* data = reinterpret_cast<T*>(bucket.data);
      std::size_t lacking = 0;
      for (const auto& place : layout.places) {
        if (!filled[place.parameter]) std::fill_n(data + place.offset, parameters[place.parameter].count(), T{0});
        filled[place.parameter] = 0;
        lacking += missing[place.parameter];
      }
      data[layout.elements] = static_cast<T>(samples);
      data[layout.elements + 1] = static_cast<T>(lacking);
    });
    if (first_flying == next_bucket) flying_since = Clock::now();
    const std::size_t elements = layout.elements + ddp::kTrailerElements;
    bucket.sum = group->start_sum(bucket.data, elements, layout.type);
    statistics.bytes += elements * size_of(layout.type);
    ++next_bucket;
  }

  // Notes which sums have completed, for the statistics. Under the mutex.
  void observe() {
    if (first_flying == next_bucket) return;
    while (first_flying < next_bucket && buckets[first_flying].sum->test()) ++first_flying;
    if (first_flying == next_bucket) statistics.communication_s += seconds(Clock::now() - flying_since);
  }

  std::size_t finish() {
    if (!in_pass) throw Error(ErrorCode::invalid_usage, "Ddp: finish() without begin_backward().");
    in_pass = false;
    if (pass_samples > 0)
      for (std::size_t p = 0; p < parameters.size(); ++p)
        if (parameters[p].trained() && !ready[p].load(std::memory_order_relaxed)) missing[p] = 1;
    if (!synchronizes) return samples;

    const std::lock_guard lock(mutex);
    observe();
    Clock::time_point from = Clock::now();
    Clock::time_point to = from;
    while (next_bucket < buckets.size()) start_next();
    const bool flying = first_flying < buckets.size();
    double total = 0;
    bool lacking = false;
    for (Bucket& bucket : buckets) {
      bucket.sum->wait();
      to = Clock::now();
      if (flying) statistics.exposed_s += seconds(to - from);
      bucket.sum.reset();
      lacking |= give_back(bucket, total);
      from = Clock::now();
    }
    if (flying) statistics.communication_s += seconds(to - flying_since);
    ++statistics.steps;
    samples = 0;
    if (lacking) {
      const auto mine = std::exchange(missing, std::vector<std::uint8_t>(parameters.size()));
      ddp::report_missing_gradients(*group, parameters, mine);
    }
    return static_cast<std::size_t>(total);
  }

  // gradient = bucket / samples of all ranks; says whether any rank lacked one of this bucket.
  bool give_back(const Bucket& bucket, double& total) {
    bool lacking = false;
    with_type(bucket.layout.type, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const T* data = reinterpret_cast<const T*>(bucket.data);
      const T all_samples = data[bucket.layout.elements];
      lacking = data[bucket.layout.elements + 1] != 0;
      total = static_cast<double>(all_samples);
      const T divisor = all_samples > 0 ? all_samples : T{1};
      for (const auto& place : bucket.layout.places) {
        const Parameter& parameter = parameters[place.parameter];
        T* to = static_cast<T*>(parameter.gradient);
        const std::size_t n = parameter.count();
        for (std::size_t i = 0; i < n; ++i) to[i] = data[place.offset + i] / divisor;
      }
    });
    return lacking;
  }
};

Ddp::Ddp(std::shared_ptr<ddp::Group> group, std::vector<Parameter> parameters, DdpOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(parameters), options)) {}
Ddp::Ddp(Ddp&&) noexcept = default;
Ddp& Ddp::operator=(Ddp&&) noexcept = default;
Ddp::~Ddp() = default;

Ddp::Impl& Ddp::impl() const {
  if (impl_ == nullptr)
    throw Error(ErrorCode::invalid_usage, "this Ddp holds nothing: it was moved from; use the one it was moved to");
  return *impl_;
}

void Ddp::begin_backward(std::size_t samples) { impl().begin(samples); }
void Ddp::gradient_ready(std::size_t parameter) { impl().gradient_ready(parameter); }

void Ddp::gradient_ready(std::string_view name) {
  const auto found = impl().index_of.find(name);
  if (found == impl().index_of.end()) {
    std::string valid;
    for (const Parameter& parameter : impl().parameters) valid += (valid.empty() ? "'" : ", '") + parameter.name + "'";
    throw Error(ErrorCode::invalid_argument,
                "Ddp: gradient_ready('" + std::string(name) + "') names no parameter; valid: " + valid + ".");
  }
  impl().gradient_ready(found->second);
}

std::size_t Ddp::finish() { return impl().finish(); }

Ddp::NoSync::NoSync(int* depth) : depth_(depth) { ++*depth_; }
Ddp::NoSync::NoSync(NoSync&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
Ddp::NoSync::~NoSync() {
  if (depth_ != nullptr) --*depth_;
}
Ddp::NoSync Ddp::no_sync() { return NoSync(&impl().no_sync_depth); }

std::uint64_t Ddp::assert_in_sync() { return ddp::check_values(*impl().group, impl().parameters); }

DdpStatistics Ddp::statistics() const {
  const std::lock_guard lock(impl().mutex);
  return impl().statistics;
}

void Ddp::reset_statistics() {
  const std::lock_guard lock(impl().mutex);
  impl().statistics = {};
}

std::vector<std::vector<std::size_t>> Ddp::buckets() const {
  std::vector<std::vector<std::size_t>> all;
  for (const Impl::Bucket& bucket : impl().buckets) {
    all.emplace_back();
    for (const auto& place : bucket.layout.places) all.back().push_back(place.parameter);
  }
  return all;
}

}  // namespace tutti

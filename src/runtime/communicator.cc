#include "src/runtime/communicator.h"

#include <string>

#include "src/base/env.h"
#include "src/base/log.h"

namespace tutti {
namespace {

using runtime::Request;

[[noreturn]] void reject(const Communicator& self, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(self.rank()) + ": " + what);
}

void check_enum(const Communicator& self, const char* what, unsigned value, int limit) {
  if (value >= static_cast<unsigned>(limit))
    reject(self, std::string(what) + " is " + std::to_string(value) + "; valid: 0 to " + std::to_string(limit - 1));
}

// Buffers are checked before the call counts: a call that is refused here has no effect.
void check_buffers(const Communicator& self, const Request& request, std::size_t input_blocks,
                   std::size_t output_blocks) {
  check_enum(self, "the data type", static_cast<unsigned>(request.type), kDataTypes);
  check_enum(self, "the reduction op", static_cast<unsigned>(request.op), kReduceOps);
  const std::size_t element = size_of(request.type);
  constexpr std::size_t kSmall = std::size_t{1} << 32;  // no division for counts that are surely fine
  if (request.count > kSmall &&
      request.count > (std::size_t{1} << 56) / element / std::max(input_blocks, output_blocks))
    reject(self,
           "the count " + std::to_string(request.count) + " is too large: the buffer would exceed the address space");
  if (request.count == 0) return;
  if (request.input == nullptr) reject(self, "the input is null but the count is " + std::to_string(request.count));
  if (request.output == nullptr) reject(self, "the output is null but the count is " + std::to_string(request.count));
}

// [a, a + bytes_a) and [b, b + bytes_b) share a byte.
bool overlap(const void* a, std::size_t bytes_a, const void* b, std::size_t bytes_b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a), begin_b = reinterpret_cast<std::uintptr_t>(b);
  return begin_a < begin_b + bytes_b && begin_b < begin_a + bytes_a;
}

Request all_reduce_request(const Communicator& self, const void* input, void* output, std::size_t count, DataType type,
                           ReduceOp op) {
  const Request request{Collective::all_reduce, type, op, 0, input, output, count};
  check_buffers(self, request, 1, 1);
  const std::size_t bytes = count * size_of(type);
  if (input != output && overlap(input, bytes, output, bytes))
    reject(self, "input and output of all_reduce overlap without being equal");
  return request;
}

// 0 is refused: to some it means "at once", to others "never", and no wait of this library is endless.
void read_timeout(const char* name, std::chrono::milliseconds& timeout) {
  const auto text = base::env(name);
  if (!text) return;
  timeout = base::parse_duration(name, *text);
  if (timeout < std::chrono::milliseconds(1))
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is '" + *text +
                                                 "'; valid: a duration from 1ms to 1000h (500ms, 10s, 5min, 2h; a bare "
                                                 "number is seconds); no wait is endless, so 0 is none of them");
}

void read_buffer_limit(const char* name, std::size_t& limit) {
  const auto text = base::env(name);
  if (!text) return;
  limit = base::parse_bytes(name, *text);
  if (limit == 0 || limit > std::size_t{1} << 40)
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is '" + *text +
                                                 "'; valid: more than 0 and at most 1T bytes, with K, M or G for "
                                                 "powers of 1024 (512K, 64M)");
}

}  // namespace

Config Config::from_environment() {
  Config config;
  base::check_log_environment();
  read_timeout("TUTTI_TIMEOUT", config.timeout);
  read_timeout("TUTTI_INIT_TIMEOUT", config.init_timeout);
  read_buffer_limit("TUTTI_BUFFER_LIMIT", config.buffer_limit);
  if (const auto text = base::env("TUTTI_ALGO")) config.algorithm = *text;
  if (const auto text = base::env("TUTTI_TRANSPORT")) config.transport = *text;
  return config;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    if (impl_ != nullptr) impl_->runner->close();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Communicator::~Communicator() {
  if (impl_ != nullptr) impl_->runner->close();
}

Communicator::Impl& Communicator::impl() const {
  if (impl_ == nullptr)
    throw Error(ErrorCode::invalid_usage,
                "this Communicator holds no connection: it was moved from; use the one it was moved to");
  return *impl_;
}

int Communicator::rank() const { return impl().runner->station().rank; }
int Communicator::size() const { return impl().runner->station().size; }
int Communicator::local_rank() const { return impl().runner->station().local_rank; }
int Communicator::local_size() const { return impl().runner->station().local_size; }
const Config& Communicator::config() const { return impl().runner->station().config; }

void Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op) {
  impl().runner->run(all_reduce_request(*this, input, output, count, type, op));
}

Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType type, ReduceOp op) {
  return Work(impl().runner->submit(all_reduce_request(*this, input, output, count, type, op)));
}

void Communicator::broadcast(void* data, std::size_t count, DataType type, int root) {
  const Request request{Collective::broadcast, type, ReduceOp::sum, root, data, data, count};
  check_buffers(*this, request, 1, 1);
  if (root < 0 || root >= size())
    reject(*this, "the root is " + std::to_string(root) + "; valid: 0 to " + std::to_string(size() - 1));
  impl().runner->run(request);
}

void Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type) {
  const Request request{Collective::all_gather, type, ReduceOp::sum, 0, input, output, count};
  const auto ranks = static_cast<std::size_t>(size());
  check_buffers(*this, request, 1, ranks);
  const std::size_t bytes = count * size_of(type);
  const auto* own_block = static_cast<const std::byte*>(output) + static_cast<std::size_t>(rank()) * bytes;
  if (input != own_block && overlap(input, bytes, output, bytes * ranks))
    reject(*this, "input of all_gather overlaps the output without being this rank's block of it");
  impl().runner->run(request);
}

void Communicator::barrier() {
  impl().runner->run({Collective::barrier, DataType::int8, ReduceOp::sum, 0, nullptr, nullptr, 0});
}

void Communicator::abort(const std::string& reason) { impl().runner->abort(reason); }

PlanInfo Communicator::explain(Collective collective, std::size_t count, DataType type, ReduceOp op) const {
  check_enum(*this, "the collective", static_cast<unsigned>(collective), kCollectives);
  check_enum(*this, "the data type", static_cast<unsigned>(type), kDataTypes);
  return impl().runner->with_plans([&](runtime::Plans& plans) {
    const planner::Plan& plan = plans.plan(collective, type, op, 0, count);
    PlanInfo info;
    info.algorithm = plan.schedule->name;
    info.slice_bytes = plan.slice_elements(count, type) * size_of(type);
    info.rounds = plan.rounds(count, type);
    info.predicted_us = plan.predicted_us;
    info.runner_up = plan.runner_up;
    info.runner_up_us = plan.runner_up_us;
    return info;
  });
}

std::vector<std::string> Communicator::algorithms(Collective collective) const {
  check_enum(*this, "the collective", static_cast<unsigned>(collective), kCollectives);
  return impl().runner->with_plans([&](runtime::Plans& plans) { return plans.algorithms(collective); });
}

void Communicator::force_algorithm(const std::string& name) { impl().runner->force_algorithm(name); }

Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    Work last(std::move(state_));  // waits
    state_ = std::move(other.state_);
  }
  return *this;
}

Work::~Work() {
  if (state_ == nullptr) return;
  try {
    wait();
  } catch (const std::exception&) {
    // The caller chose not to look: the error stays with the communicator, whose next call throws it.
  }
}

Work::State& Work::state() const {
  if (state_ == nullptr)
    throw Error(ErrorCode::invalid_usage,
                "this Work holds no operation: it was moved from, or nothing was ever moved into it");
  return *state_;
}

void Work::wait() { state().runner->wait(*state_); }

bool Work::test() const {
  State& own = state();
  return own.runner->test(own);
}

}  // namespace tutti

#include "src/runtime/communicator.h"

#include <optional>
#include <string>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/schedule/collectives.h"

namespace tutti {
namespace {

using runtime::Request;
using schedule::CollectiveTraits;

[[noreturn]] void reject(const Communicator& self, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(self.rank()) + ": " + what);
}

void check_enum(const Communicator& self, const char* what, unsigned value, int limit) {
  if (value >= static_cast<unsigned>(limit))
    reject(self, std::string(what) + " is " + std::to_string(value) + "; valid: 0 to " + std::to_string(limit - 1));
}

// Type and op are known ones from here on.
void check_pair(const Communicator& self, DataType type, ReduceOp op) {
  if (can_reduce(type, op)) return;
  reject(self, std::string(name_of(op)) + " does not reduce elements of type " + std::string(name_of(type)) +
                   "; valid: " + valid_ops(type));
}

void check_factor(const Communicator& self, DataType type, const std::optional<Factor>& factor) {
  if (factor && factor->suits(type)) return;
  const std::string needs = std::string(name_of(ReduceOp::premul_sum)) + " of elements of type " +
                            std::string(name_of(type)) + " needs a Factor";
  if (!factor) reject(self, needs + ": pass one in the operator's place");
  reject(self, needs + " of their own type (float for 16- and 8-bit floats); this one is of type " +
                   std::string(name_of(factor->type())));
}

// [a, a + bytes_a) and [b, b + bytes_b) share a byte.
bool overlap(const void* a, std::size_t bytes_a, const void* b, std::size_t bytes_b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a), begin_b = reinterpret_cast<std::uintptr_t>(b);
  return begin_a < begin_b + bytes_b && begin_b < begin_a + bytes_a;
}

// Which overlap of the buffers would be allowed.
std::string in_place_form(const CollectiveTraits& traits) {
  if (traits.input_per_rank && traits.output_per_rank) return "overlap; it has no in-place form";
  if (traits.output_per_rank) return "overlap without the input being this rank's block of the output";
  if (traits.input_per_rank) return "overlap without the output being this rank's block of the input";
  return "overlap without being equal";
}

// Buffers are checked before the call counts: a call that is refused here has no effect.
void check_buffers(const Communicator& self, const Request& request) {
  const CollectiveTraits& traits = schedule::traits_of(request.collective);
  const int rank = self.rank();
  const auto input_blocks = static_cast<std::size_t>(schedule::input_blocks(request.collective, self.size()));
  const auto output_blocks = static_cast<std::size_t>(schedule::output_blocks(request.collective, self.size()));
  const std::size_t element = size_of(request.type);
  constexpr std::size_t kSmall = std::size_t{1} << 32;  // no division for counts that are surely fine
  if (request.count > kSmall &&
      request.count > (std::size_t{1} << 56) / element / std::max(input_blocks, output_blocks))
    reject(self,
           "the count " + std::to_string(request.count) + " is too large: the buffer would exceed the address space");
  if (request.count == 0) return;
  const bool reads = schedule::has_input(request.collective, request.root, rank);
  const bool writes = schedule::has_output(request.collective, request.root, rank);
  if (reads && request.input == nullptr)
    reject(self, "the input is null but the count is " + std::to_string(request.count));
  if (writes && request.output == nullptr)
    reject(self, "the output is null but the count is " + std::to_string(request.count));
  if (!reads || !writes) return;
  const std::size_t block = request.count * element;
  if (const auto same = schedule::in_place_of(request.collective, rank)) {
    const auto* input = static_cast<const std::byte*>(request.input) + static_cast<std::size_t>(same->input) * block;
    const auto* output = static_cast<std::byte*>(request.output) + static_cast<std::size_t>(same->output) * block;
    if (input == output) return;
  }
  if (overlap(request.input, block * input_blocks, request.output, block * output_blocks))
    reject(self, "input and output of " + std::string(name_of(request.collective)) + " " + in_place_form(traits));
}

void check_op(const Communicator& self, const CollectiveCall& call) {
  check_enum(self, "the reduction op", static_cast<unsigned>(call.op), kReduceOps);
  check_pair(self, call.type, call.op);
  if (call.op == ReduceOp::premul_sum) check_factor(self, call.type, call.factor);
}

// Fields of which the collective makes no use get a value of their own, so that ranks need not agree on them.
Request request_of(const Communicator& self, const CollectiveCall& call) {
  check_enum(self, "the collective", static_cast<unsigned>(call.collective), kCollectives);
  if (call.collective == Collective::barrier)
    return {Collective::barrier, DataType::int8, ReduceOp::sum, 0, nullptr, nullptr, 0};
  const CollectiveTraits& traits = schedule::traits_of(call.collective);
  check_enum(self, "the data type", static_cast<unsigned>(call.type), kDataTypes);
  if (traits.reduces) check_op(self, call);
  if (traits.rooted() && (call.root < 0 || call.root >= self.size()))
    reject(self, "the root is " + std::to_string(call.root) + "; valid: 0 to " + std::to_string(self.size() - 1));
  const Request request{call.collective,
                        call.type,
                        traits.reduces ? call.op : ReduceOp::sum,
                        traits.rooted() ? call.root : 0,
                        call.input,
                        call.output,
                        call.count,
                        call.factor ? call.factor->bits() : 0};
  check_buffers(self, request);
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
  impl().runner->run(request_of(*this, {Collective::all_reduce, input, output, count, type, op}));
}

Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType type, ReduceOp op) {
  return start({Collective::all_reduce, input, output, count, type, op});
}

void Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type, Factor factor) {
  impl().runner->run(
      request_of(*this, {Collective::all_reduce, input, output, count, type, ReduceOp::premul_sum, 0, factor}));
}

Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType type, Factor factor) {
  return start({Collective::all_reduce, input, output, count, type, ReduceOp::premul_sum, 0, factor});
}

void Communicator::broadcast(void* data, std::size_t count, DataType type, int root) {
  impl().runner->run(request_of(*this, {Collective::broadcast, data, data, count, type, ReduceOp::sum, root}));
}

void Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type) {
  impl().runner->run(request_of(*this, {Collective::all_gather, input, output, count, type}));
}

void Communicator::barrier() { impl().runner->run(request_of(*this, {Collective::barrier})); }

void Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root) {
  impl().runner->run(request_of(*this, {Collective::reduce, input, output, count, type, op, root}));
}

void Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op) {
  impl().runner->run(request_of(*this, {Collective::reduce_scatter, input, output, count, type, op}));
}

void Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type) {
  impl().runner->run(request_of(*this, {Collective::all_to_all, input, output, count, type}));
}

void Communicator::gather(const void* input, void* output, std::size_t count, DataType type, int root) {
  impl().runner->run(request_of(*this, {Collective::gather, input, output, count, type, ReduceOp::sum, root}));
}

void Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, int root) {
  impl().runner->run(request_of(*this, {Collective::scatter, input, output, count, type, ReduceOp::sum, root}));
}

void Communicator::run(const CollectiveCall& call) { impl().runner->run(request_of(*this, call)); }

Work Communicator::start(const CollectiveCall& call) { return Work(impl().runner->submit(request_of(*this, call))); }

std::optional<Error> Communicator::failure() const { return impl().runner->failure(); }

void Communicator::abort(const std::string& reason) { impl().runner->abort(reason); }

PlanInfo Communicator::explain(Collective collective, std::size_t count, DataType type, ReduceOp op) const {
  check_enum(*this, "the collective", static_cast<unsigned>(collective), kCollectives);
  check_enum(*this, "the data type", static_cast<unsigned>(type), kDataTypes);
  check_enum(*this, "the reduction op", static_cast<unsigned>(op), kReduceOps);
  check_pair(*this, type, op);
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

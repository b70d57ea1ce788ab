// The one file that knows the concrete transports and kernels: it registers them and connects communicators.
#include <exception>
#include <future>
#include <system_error>
#include <thread>

#include "kernels/host/kernels.h"
#include "src/base/env.h"
#include "src/runtime/communicator.h"
#include "src/runtime/connect.h"
#include "src/runtime/job.h"
#include "src/runtime/regroup.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {
namespace {

runtime::Parts parts() {
  runtime::Parts parts;
  parts.kernels = &kernels::host_kernels();
  parts.transports.push_back({"shm", true, [](const runtime::TransportContext& context) {
                                transport::ShmOptions options;
                                options.rank = context.rank;
                                options.communicator = context.communicator;
                                options.secret = context.secret;
                                options.arena = context.arena;
                                options.engine = context.engine;
                                return transport::make_shm_transport(options);
                              }});
  parts.transports.push_back({"tcp", false, [](const runtime::TransportContext& context) {
                                transport::TcpOptions options;
                                options.rank = context.rank;
                                options.size = context.size;
                                options.communicator = context.communicator;
                                options.secret = context.secret;
                                options.connect_timeout = context.connect_timeout;
                                options.memory_limit = context.memory_limit;
                                return transport::make_tcp_transport(options);
                              }});
  return parts;
}

// When one rank fails, the others fail for its sake: throws the cause rather than the echo.
void rethrow_cause(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      if (known.code() != ErrorCode::remote_error && known.code() != ErrorCode::timeout) throw;
    }
  }
  if (first) std::rethrow_exception(first);
}

std::shared_ptr<runtime::Runner> connect_runner(const runtime::Job& job, const Config& config) {
  return std::make_shared<runtime::Runner>(runtime::connect(job, config, parts()));
}

}  // namespace

Communicator Communicator::connect(const Config& config) {
  const runtime::Job job = runtime::job_from_environment(base::env);
  return Communicator(std::make_unique<Impl>(Impl{connect_runner(job, config)}));
}

Communicator Communicator::connect(const UniqueId& id, int rank, int size, const Config& config) {
  const runtime::Job job = runtime::job_from_unique_id(id, rank, size);
  return Communicator(std::make_unique<Impl>(Impl{connect_runner(job, config)}));
}

std::vector<Communicator> Communicator::connect_threads(int size, const Config& config) {
  constexpr int kMostThreads = 4096;
  if (size < 1 || size > kMostThreads)
    throw Error(ErrorCode::invalid_argument, "the number of ranks is " + std::to_string(size) + "; valid: 1 to " +
                                                 std::to_string(kMostThreads) + " in one process");
  const UniqueId id = size == 1 ? UniqueId{} : UniqueId::create();
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::shared_ptr<runtime::Runner>> runners(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  const auto connect_rank = [&](std::size_t rank) {
    try {
      runtime::Job job;
      if (size > 1) job = runtime::job_from_unique_id(id, static_cast<int>(rank), size);
      runners[rank] = connect_runner(job, config);
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  };
  {
    // No rank starts to wait for the others before all threads are there.
    std::promise<bool> all_there;
    const std::shared_future<bool> go = all_there.get_future().share();
    std::vector<std::jthread> threads;  // joined at the end of the block, whatever happens
    threads.reserve(ranks - 1);
    try {
      for (std::size_t rank = 1; rank < ranks; ++rank)
        threads.emplace_back([&connect_rank, go, rank] {
          if (go.get()) connect_rank(rank);
        });
    } catch (const std::system_error& error) {
      all_there.set_value(false);
      throw Error(ErrorCode::system_error, "cannot start thread " + std::to_string(threads.size() + 1) + " of " +
                                               std::to_string(size) + " (ulimit -u, ulimit -v): " + error.what());
    }
    all_there.set_value(true);
    connect_rank(0);
  }
  rethrow_cause(errors);
  std::vector<Communicator> communicators;
  for (auto& runner : runners) communicators.push_back(Communicator(std::make_unique<Impl>(Impl{std::move(runner)})));
  return communicators;
}

std::optional<Communicator> Communicator::split(int color, int key) { return split(color, key, config()); }
Communicator Communicator::shrink(std::span<const int> left_out) { return shrink(left_out, config()); }
Communicator Communicator::grow(int size, const UniqueId* id) { return grow(size, id, config()); }

std::optional<Communicator> Communicator::split(int color, int key, const Config& config) {
  const std::vector<int> members = runtime::members_of_color(*this, color, key);
  const runtime::Job job = impl().runner->reunion(members, runtime::Occasion::split, color);
  if (members.empty()) return std::nullopt;
  return Communicator(std::make_unique<Impl>(Impl{connect_runner(job, config)}));
}

Communicator Communicator::shrink(std::span<const int> left_out, const Config& config) {
  const runtime::Job job = impl().runner->reunion(runtime::members_without(*this, left_out), runtime::Occasion::shrink);
  return Communicator(std::make_unique<Impl>(Impl{connect_runner(job, config)}));
}

Communicator Communicator::grow(int size, const UniqueId* id, const Config& config) {
  return connect(runtime::common_id(*this, size, id), rank(), size, config);
}

}  // namespace tutti

// From a Job to a Station: meet, exchange facts, choose transports, and make sure that everybody is ready.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/runtime/job.h"
#include "src/runtime/runner.h"
#include "src/runtime/transport.h"

namespace tutti::runtime {

// What a transport may use of the communicator it serves.
struct TransportContext {
  int rank = 0;
  int size = 1;
  std::uint64_t communicator = 0;  // nonce, equal on all ranks
  Secret secret{};
  std::shared_ptr<Arena> arena;
  std::shared_ptr<Engine> engine;
  std::chrono::milliseconds connect_timeout{0};
  std::size_t memory_limit = 0;  // bytes of rings it may make for what it receives
};

// A transport this build has. src/tutti.cc lists them, best first.
struct TransportKind {
  std::string name;
  bool same_host_only = false;
  std::function<std::unique_ptr<Transport>(const TransportContext&)> make;
};

// What src/tutti.cc hands to the runtime, which names no concrete transport or kernel itself.
struct Parts {
  std::vector<TransportKind> transports;
  const Kernels* kernels = nullptr;
};

// Blocks until all ranks are ready or config.init_timeout has passed; throws Error on every rank then.
Station connect(const Job& job, const Config& config, const Parts& parts);

}  // namespace tutti::runtime

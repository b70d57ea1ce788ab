// What a public Communicator holds.
#pragma once

#include <memory>

#include "src/runtime/runner.h"
#include "tutti/communicator.h"

namespace tutti {

struct Communicator::Impl {
  std::shared_ptr<runtime::Runner> runner;
};

}  // namespace tutti

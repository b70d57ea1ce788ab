// Ranks for tests: as threads of this process, or as forked processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::test {

// Runs body(communicator) on `size` ranks, each on its own thread; rethrows the first rank's failure with its number.
void on_threads(int size, const std::function<void(Communicator&)>& body, const Config& config = {});

// How a rank that was a process ended.
struct Ending {
  int status = -1;      // exit status; -1: killed
  int signal = 0;       // that killed it
  std::string message;  // what the rank's body threw, or wrote by returning it
};

// Forks `size` processes, connects them by unique id and runs body in each; the string it returns (or the text of what
// it throws, with status 1) comes back. Kills everything that is left after `seconds`.
std::vector<Ending> in_processes(int size, const std::function<std::string(Communicator&)>& body,
                                 const Config& config = {}, int seconds = 60);

// Stops this process for so long. A child wakes it: nobody can do that himself.
void stop_for(unsigned seconds);

}  // namespace tutti::test

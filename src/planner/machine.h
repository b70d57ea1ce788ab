// Which machine a profile was measured on.
#pragma once

#include <string>

namespace tutti::planner {

struct Machine {
  std::string host;     // for people: it takes no part in telling machines apart
  std::string cpu;      // model of the first package; empty: unknown
  int cores = 0;        // of the whole machine
  int numa_nodes = 0;   // of the whole machine
  std::string library;  // version of Tutti
  friend bool operator==(const Machine&, const Machine&) = default;
};

// Looks at the hardware; takes milliseconds.
Machine this_machine();

// Whether times measured on one hold on the other: all but the host name is equal.
bool alike(const Machine& a, const Machine& b);

// "AMD EPYC, 2 cores, 1 NUMA node, Tutti 0.1.0 (host)"
std::string in_words(const Machine& machine);

}  // namespace tutti::planner

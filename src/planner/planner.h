// Chooses the algorithm and the slots of every call.
//
// A plan depends on the World and on (collective, element size, root, size class) only: never on addresses or on the
// order of calls. So ranks with equal Worlds choose equal plans.
//
// Thread safety: one thread at a time. plan() allocates and may take milliseconds the first time it meets a class;
// afterwards it costs one hash probe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/planner/cost.h"
#include "src/planner/plan.h"
#include "src/planner/variant.h"
#include "src/planner/world.h"
#include "src/schedule/builders.h"
#include "tutti/types.h"

namespace tutti::planner {

// Where a prediction comes from.
enum class Basis {
  model,     // the built-in costs
  measured,  // the profile
  scaled,    // the profile's figure for other ranks or cores, times what the model says of the difference
};

// One algorithm's best way to run a call.
struct Candidate {
  std::string algorithm;
  int lanes = 1;
  std::uint32_t slots = 2;
  std::uint32_t slot_bytes = 64;
  std::size_t rounds = 1;
  std::size_t slice_bytes = 0;
  double predicted_us = 0;
  Basis basis = Basis::model;
  int measured_ranks = 0;  // of the profile's figure
  Cost cost;               // of the built-in model, by cause
  std::shared_ptr<const schedule::Schedule> schedule;
};

class Planner {
 public:
  // Throws Error(invalid_argument) that names the variable or field when the World is contradictory or forces an
  // algorithm that does not exist. `builders` must outlive the planner.
  explicit Planner(World world, std::span<const schedule::Builder> builders = schedule::builders());
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  const World& world() const;

  // The plan of a call of `count` elements (of one block, in collectives with several). The reference stays valid until
  // the end of the planner. Throws Error(invalid_argument) that names TUTTI_BUFFER_LIMIT when no algorithm fits.
  const Plan& plan(Collective collective, DataType type, ReduceOp op, int root, std::size_t count);

  // Equal for calls that have the same plan under what is forced. Throws as plan() for a count that is too large. May
  // be called while another thread plans.
  std::uint64_t key_of(Collective collective, DataType type, int root, std::size_t count) const;

  // Every algorithm that fits, best first, whatever is forced.
  std::vector<Candidate> candidates(Collective collective, DataType type, ReduceOp op, int root, std::size_t count);

  // What is worth measuring for such a call: every algorithm with the lanes and slots that might be its best. Depends
  // on ranks, hosts and the buffer limit only.
  std::vector<Variant> variants(Collective collective, DataType type, std::size_t count);

  // Names of the algorithms of a collective.
  std::vector<std::string> algorithms(Collective collective) const;

  // What later plans may use: a name, a comma-separated list of names, or "^" and a list of names not to use; upper or
  // lower case; empty: every one. A name that is to be used may say with how many lanes and which slots: variant.h. A
  // collective with none of them left uses every one (logged once). Plans given out before stay valid. Throws
  // Error(invalid_argument) that lists the valid names.
  void force(const std::string& names);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::planner

// The planner's choice in words and numbers, for `tutti explain`.
#pragma once

#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace tutti::planner {

struct Question {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;
};

// A table of the candidates, best first, then what is chosen, what comes next and which cost decides.
std::string explain(Planner& planner, const Question& question);

}  // namespace tutti::planner

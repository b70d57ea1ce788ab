// Slurm's compact lists of hosts and of tasks per node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::runtime {

// The first host of "n[01-03,07],m4" (n01). Throws Error(invalid_argument) that names `variable` for other text.
std::string first_host(std::string_view variable, std::string_view list);

// "2(x2),1" -> 2, 2, 1: the tasks of each node. At most 65536 nodes.
std::vector<int> tasks_per_node(std::string_view variable, std::string_view list);

}  // namespace tutti::runtime

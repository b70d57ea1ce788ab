// A Schedule as a table that a person can read: per rank, every lane's Steps in words.
#pragma once

#include <string>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

std::string render_text(const Schedule& schedule);

}  // namespace tutti::schedule

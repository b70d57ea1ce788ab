#include "src/runtime/job_slurm.h"

#include <algorithm>
#include <cctype>

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

constexpr std::int64_t kMaxNodes = 65536;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.'; }

[[noreturn]] void reject(std::string_view variable, std::string_view text, const std::string& valid) {
  throw Error(ErrorCode::invalid_argument, std::string(variable) + " is '" + std::string(text) + "'; valid: " + valid);
}

// Walks over the text and remembers where it is.
struct Cursor {
  std::string_view variable, text, valid;
  std::size_t at = 0;

  bool done() const { return at == text.size(); }
  bool take(char c) {
    if (done() || text[at] != c) return false;
    ++at;
    return true;
  }
  template <class Test>
  std::string run(Test test) {
    const std::size_t from = at;
    while (!done() && test(text[at])) ++at;
    return std::string(text.substr(from, at - from));
  }
  std::string digits() {
    const std::string number = run(is_digit);
    if (number.empty() || number.size() > 9) fail();
    return number;
  }
  [[noreturn]] void fail() const { reject(variable, text, std::string(valid)); }
};

// "[01-03,07]" after its bracket; the first number, with its leading zeros.
std::string first_of_range(Cursor& cursor) {
  std::string first;
  do {
    const std::string low = cursor.digits();
    if (cursor.take('-') && std::stoi(cursor.digits()) < std::stoi(low)) cursor.fail();
    if (first.empty()) first = low;
  } while (cursor.take(','));
  if (!cursor.take(']')) cursor.fail();
  return first;
}

// One entry of the list: names and ranges in turn; behind the last range nothing may follow.
std::string first_of_entry(Cursor& cursor) {
  std::string host = cursor.run(is_name);
  if (host.empty()) cursor.fail();
  std::string tail;
  while (cursor.take('[')) {
    host += tail + first_of_range(cursor);
    tail = cursor.run(is_name);
    if (!tail.empty() && (cursor.done() || cursor.text[cursor.at] != '[')) cursor.fail();
  }
  return host;
}

}  // namespace

std::string first_host(std::string_view variable, std::string_view list) {
  Cursor cursor{variable, list, "a Slurm host list such as n1, n[01-03,07] or rack[0-1]n[00-15],m4"};
  std::string first;
  do {
    const std::string host = first_of_entry(cursor);
    if (first.empty()) first = host;
  } while (cursor.take(','));
  if (!cursor.done()) cursor.fail();
  return first;
}

std::vector<int> tasks_per_node(std::string_view variable, std::string_view list) {
  Cursor cursor{variable, list, "a Slurm list of tasks per node such as 2(x3),1"};
  std::vector<int> tasks;
  do {
    const int count = std::stoi(cursor.digits());
    int times = 1;
    if (cursor.take('(')) {
      if (!cursor.take('x')) cursor.fail();
      times = std::stoi(cursor.digits());
      if (!cursor.take(')')) cursor.fail();
    }
    if (static_cast<std::int64_t>(tasks.size()) + times > kMaxNodes) cursor.fail();
    tasks.insert(tasks.end(), static_cast<std::size_t>(times), count);
  } while (cursor.take(','));
  if (!cursor.done()) cursor.fail();
  return tasks;
}

}  // namespace tutti::runtime

// A Schedule told to people: when each Step would run if every message took one tick and nothing else took time, which
// chunks it handles, and of how many ranks' contributions its result is the sum. The renderers draw and print this.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/schedule.h"
#include "src/schedule/wiring.h"

namespace tutti::schedule {

class Timeline {
 public:
  struct Moment {
    int time = 0;           // ticks; as late as possible without delaying any result
    int first_chunk = 0;    // of the buffer that the Step touches, or of the message that it passes on
    int contributions = 0;  // ranks whose input is in the result
    double complete = 0;    // share of the contributions that the collective's result needs, 0 to 1
    bool is_complete() const { return complete >= 1; }
  };
  struct Message {
    int from = 0;  // Steps, in the numbering of the wiring
    int to = 0;
    int port = 0;
  };

  // Keeps a reference to the Schedule, which must be free of circles.
  explicit Timeline(const Schedule& schedule);
  Timeline(Schedule&&) = delete;

  const Schedule& schedule() const { return schedule_; }
  const Wiring& wiring() const { return wiring_; }
  const Moment& moment(int id) const { return moments_[static_cast<std::size_t>(id)]; }
  const std::vector<Message>& messages() const { return messages_; }
  int end() const { return end_; }  // the last tick

  // What happens to the messages sent at this tick: "reduce-scatter", "all-gather", "reduce", "broadcast", two of them
  // joined by " + ", or nothing.
  std::string phase(int time) const;

  // "receive chunk 3 from 2, add mine, send the sum to 0"
  std::string sentence(int id) const;
  // "add, send"
  std::string words(int id) const;

 private:
  void set_contents(const std::vector<int>& order);
  void set_times(const std::vector<int>& order);

  const Schedule& schedule_;
  Wiring wiring_;
  std::vector<Moment> moments_;
  std::vector<Message> messages_;
  int end_ = 0;
};

// "ring all-reduce, 8 ranks"
std::string title_of(const Schedule& schedule);

}  // namespace tutti::schedule

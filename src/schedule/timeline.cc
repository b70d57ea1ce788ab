#include "src/schedule/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "src/schedule/collectives.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool reduces(Collective collective) { return traits_of(collective).reduces || collective == Collective::barrier; }

const Destination* find_out(const Step& step, Destination::Kind kind) {
  const auto found = std::find_if(step.out.begin(), step.out.end(), [&](const auto& out) { return out.kind == kind; });
  return found == step.out.end() ? nullptr : &*found;
}

int count_in(const Step& step, Operand::Kind kind) {
  return static_cast<int>(
      std::count_if(step.in.begin(), step.in.end(), [&](const auto& in) { return in.kind == kind; }));
}

// "1", "1 and 2", "1, 2 and 3", "1, 2, ... and 9"
std::string listed(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool last = i + 1 == ranks.size();
    if (ranks.size() > kMost && i >= kMost - 1 && !last) {
      if (i == kMost - 1) text += ", ...";
      continue;
    }
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string name_of_chunks(int first, int chunks) {
  return chunks == 1 ? "chunk " + std::to_string(first)
                     : "chunks " + std::to_string(first) + "-" + std::to_string(first + chunks - 1);
}

}  // namespace

Timeline::Timeline(const Schedule& schedule) : schedule_(schedule), wiring_(schedule), moments_(at(wiring_.size())) {
  const std::vector<int> order = wiring_.firing_order();
  if (static_cast<int>(order.size()) != wiring_.size())
    throw Error(ErrorCode::invalid_argument, "schedule '" + schedule.name + "' has Steps that wait for each other");
  for (int id = 0; id < wiring_.size(); ++id) {
    const auto senders = wiring_.senders(id);
    for (std::size_t i = 0; i < senders.size(); ++i)
      if (senders[i] >= 0) messages_.push_back({senders[i], id, wiring_.step(id).in[i].index});
  }
  set_contents(order);
  set_times(order);
}

void Timeline::set_contents(const std::vector<int>& order) {
  std::map<std::tuple<int, Buffer, int>, int> held;  // contributions in (rank, buffer, chunk)
  const bool sums = reduces(schedule_.collective);
  const int needed = sums ? schedule_.ranks : 1;
  for (const int id : order) {
    const Step& step = wiring_.step(id);
    const int rank = wiring_.place(id).rank;
    const auto senders = wiring_.senders(id);
    Moment& moment = moments_[at(id)];
    bool known = false;
    const auto touch = [&](int chunk) {
      if (!known) moment.first_chunk = chunk;
      known = true;
    };
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local) touch(out.index);
    for (std::size_t i = 0; i < step.in.size(); ++i) {
      const Operand& in = step.in[i];
      int contributions = 0;
      if (in.kind == Operand::Kind::recv) {
        contributions = senders[i] < 0 ? 0 : moments_[at(senders[i])].contributions;
      } else {
        contributions = in.buffer == Buffer::input ? 1 : held[{rank, in.buffer, in.index}];
        touch(in.index);
      }
      moment.contributions += contributions;
    }
    for (const int sender : senders)
      if (sender >= 0) touch(moments_[at(sender)].first_chunk);
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local)
        for (int chunk = 0; chunk < step.chunks; ++chunk)
          held[{rank, out.buffer, out.index + chunk}] = moment.contributions;
    moment.complete = std::min(1.0, static_cast<double>(moment.contributions) / needed);
  }
}

void Timeline::set_times(const std::vector<int>& order) {
  const auto ticks = [&](int before, int id) { return wiring_.place(before).rank == wiring_.place(id).rank ? 0 : 1; };
  for (const int id : order) {
    int& time = moments_[at(id)].time;
    wiring_.for_each_before(id,
                            [&](int before) { time = std::max(time, moments_[at(before)].time + ticks(before, id)); });
    end_ = std::max(end_, time);
  }
  // Backwards: a Step moves down to just before the first that needs it; the last ones stay where they are.
  constexpr int kNobody = std::numeric_limits<int>::max();
  std::vector<int> latest(at(wiring_.size()), kNobody);
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    int& time = moments_[at(*id)].time;
    if (latest[at(*id)] != kNobody) time = std::max(time, latest[at(*id)]);
    wiring_.for_each_before(
        *id, [&](int before) { latest[at(before)] = std::min(latest[at(before)], time - ticks(before, *id)); });
  }
}

std::string Timeline::phase(int time) const {
  std::string partial = "reduce-scatter", complete = "all-gather";
  switch (schedule_.collective) {
    case Collective::all_reduce:
      if (schedule_.name == "tree") partial = "reduce", complete = "broadcast";
      if (schedule_.name == "oneshot") partial = "exchange";
      break;
    case Collective::barrier: partial = "gather", complete = "release"; break;
    case Collective::broadcast: complete = "broadcast"; break;
    case Collective::reduce: partial = "reduce"; break;
    case Collective::all_to_all: complete = "exchange"; break;
    case Collective::gather: complete = "gather"; break;
    case Collective::scatter: complete = "scatter"; break;
    case Collective::reduce_scatter:
    case Collective::all_gather: break;
  }
  bool has_partial = false, has_complete = false;
  for (const Message& message : messages_)
    if (moment(message.from).time == time) (moment(message.from).is_complete() ? has_complete : has_partial) = true;
  return has_partial && has_complete ? partial + " + " + complete
         : has_partial               ? partial
         : has_complete              ? complete
                                     : "";
}

std::string Timeline::sentence(int id) const {
  const Step& step = wiring_.step(id);
  const Moment& now = moment(id);
  const std::string chunk = name_of_chunks(now.first_chunk, step.chunks);
  const bool data = schedule_.collective != Collective::barrier;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };

  std::vector<int> writers;
  for (const Operand& in : step.in)
    if (in.kind == Operand::Kind::recv) writers.push_back(schedule_.ports[at(in.index)].writer);
  const bool mine = count_in(step, Operand::Kind::local) > 0;
  const bool sum = step.in.size() > 1;
  if (!writers.empty()) {
    std::sort(writers.begin(), writers.end());
    add(data ? "receive " + chunk + " from " + listed(writers) : "hear from " + listed(writers));
    if (sum && data) add(mine ? "add mine" : "add them up");
  }
  const Destination* local = find_out(step, Destination::Kind::local);
  const Destination* send = find_out(step, Destination::Kind::send);
  const std::string what = !writers.empty()        ? std::string(sum ? "the sum" : "it")
                           : now.contributions > 1 ? "the sum of " + chunk
                                                   : "my " + chunk;
  if (local != nullptr && data)
    add((writers.empty() ? "copy " : "store ") + what + (local->buffer == Buffer::scratch ? " in scratch" : ""));
  if (send != nullptr) {
    const std::string to = listed(schedule_.ports[at(send->index)].readers);
    add(data ? "send " + (local == nullptr ? what : "it") + " to " + to : "tell " + to);
  }
  if (text.empty()) text = "wait";
  for (const Dependency& before : step.after)
    text += " (after lane " + std::to_string(before.lane) + ", step " + std::to_string(before.step) + ")";
  if (sum && now.is_complete() && reduces(schedule_.collective) && data) text += "  [complete]";
  return text;
}

std::string Timeline::words(int id) const {
  const Step& step = wiring_.step(id);
  const bool receives = count_in(step, Operand::Kind::recv) > 0;
  std::string text = step.in.size() > 1 ? "add" : "";
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  if (find_out(step, Destination::Kind::local) != nullptr) add(receives || step.in.size() > 1 ? "keep" : "copy");
  if (find_out(step, Destination::Kind::send) != nullptr) add("send");
  return text.empty() ? "wait" : text;
}

std::string title_of(const Schedule& schedule) {
  std::string collective(name_of(schedule.collective));
  std::replace(collective.begin(), collective.end(), '_', '-');
  return schedule.name + " " + collective + ", " + std::to_string(schedule.ranks) +
         (schedule.ranks == 1 ? " rank" : " ranks");
}

}  // namespace tutti::schedule

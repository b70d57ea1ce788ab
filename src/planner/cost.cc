#include "src/planner/cost.h"

#include <algorithm>
#include <array>

#include "src/schedule/wiring.h"

namespace tutti::planner {
namespace {

using schedule::Destination;
using schedule::Operand;
using schedule::Step;
using schedule::Wiring;

// One question to the model: a round in which every chunk has `bytes` bytes, with or without the cost of adding.
struct Case {
  double bytes = 0;
  bool adds = true;
};
// An empty and a typical slice, and what the bytes of the latter cost without the additions.
constexpr double kTypical = 32 << 10;
constexpr std::array<Case, 3> kCases{{{0, true}, {kTypical, true}, {kTypical, false}}};
using Times = std::array<double, kCases.size()>;  // of each case, us

void add(Times& times, const Times& more) {
  for (std::size_t c = 0; c < times.size(); ++c) times[c] += more[c];
}
void add(Times& times, double same) {
  for (double& time : times) time += same;
}
void raise(Times& times, const Times& least) {
  for (std::size_t c = 0; c < times.size(); ++c) times[c] = std::max(times[c], least[c]);
}
// A price of bytes for messages of `chunks` chunks.
Times price(double us_per_byte, std::int32_t chunks) {
  Times times{};
  for (std::size_t c = 0; c < times.size(); ++c) times[c] = us_per_byte * (kCases[c].bytes * chunks);
  return times;
}

struct RoundTimes {
  Times path{};
  Times busy{};
};

// Walks the Schedule once for all cases.
class Walk {
 public:
  Walk(const Wiring& wiring, const schedule::Schedule& schedule, const World& world, const CostTable& table)
      : wiring_(wiring),
        schedule_(schedule),
        world_(world),
        table_(table),
        share_(world.ranks_per_core()),
        one_host_(world.ranks_of_fullest_host() == world.ranks),
        fetch_us_per_byte_(fetch_us_per_byte(1)),
        shared_fetch_us_per_byte_(fetch_us_per_byte(share_)) {}

  RoundTimes run() const {
    std::vector<Times> end(static_cast<std::size_t>(wiring_.size()), Times{});
    std::vector<Times> free_at(schedule_.programs.size(), Times{}), busy(schedule_.programs.size(), Times{});
    std::vector<Times> link_busy(schedule_.ports.size(), Times{});
    RoundTimes time;
    for (const int id : wiring_.firing_order()) {
      const Step& step = wiring_.step(id);
      const auto rank = static_cast<std::size_t>(wiring_.place(id).rank);
      Times start = free_at[rank];
      const auto senders = wiring_.senders(id);
      for (std::size_t i = 0; i < senders.size(); ++i) {
        if (senders[i] < 0) continue;
        const int port = step.in[i].index;
        const LinkCost& link = link_to(port, static_cast<int>(rank));
        Times arrival = price(link.beta_us_per_byte, step.chunks);
        add(link_busy[static_cast<std::size_t>(port)], arrival);
        for (std::size_t c = 0; c < arrival.size(); ++c)
          arrival[c] = end[static_cast<std::size_t>(senders[i])][c] + arrival[c] + arrival_us(link);
        raise(start, arrival);
      }
      // Earlier Steps of this rank have run: it runs them one after another, in this order.
      Times work = work_of(step, static_cast<int>(rank));
      for (double& us : work) us *= share_;
      add(busy[rank], work);
      add(start, work);
      end[static_cast<std::size_t>(id)] = free_at[rank] = start;
      raise(time.path, start);
    }
    for (const Times& us : busy) raise(time.busy, us);
    for (const Times& us : link_busy) raise(time.busy, us);
    if (share_ > 1) add(time.busy, table_.switch_us * share_);  // the ranks of a core take turns at least once a round
    return time;
  }

 private:
  // What the Step costs its rank's core.
  Times work_of(const Step& step, int rank) const {
    Times us;
    us.fill(table_.step_us);
    for (const Operand& operand : step.in) {
      if (operand.kind == Operand::Kind::local) {
        add(us, price(table_.copy_us_per_byte, step.chunks));
        continue;
      }
      const schedule::Port& port = schedule_.ports[static_cast<std::size_t>(operand.index)];
      if (port.acknowledged) add(us, table_.acknowledge_us);
      const bool remote = crosses_hosts(port.writer, rank);
      const double per_byte = remote                    ? table_.remote_us_per_byte + table_.copy_us_per_byte
                              : port.readers.size() > 1 ? shared_fetch_us_per_byte_
                                                        : fetch_us_per_byte_;
      Times taking = price(per_byte, step.chunks);
      add(taking, remote ? table_.remote_message_us : table_.message_us);
      add(us, taking);
    }
    if (step.in.size() > 1) {
      const Times adding = price(table_.reduce_us_per_byte, step.chunks);
      for (std::size_t c = 0; c < us.size(); ++c)
        if (kCases[c].adds) us[c] += adding[c] * static_cast<double>(step.in.size() - 1);
    }
    for (const Destination& destination : step.out) {
      add(us, price(table_.copy_us_per_byte, step.chunks));
      if (destination.kind == Destination::Kind::send)
        add_send(us, schedule_.ports[static_cast<std::size_t>(destination.index)], step.chunks);
    }
    return us;
  }

  void add_send(Times& us, const schedule::Port& port, std::int32_t chunks) const {
    bool local = one_host_ && !port.readers.empty();
    if (!one_host_)
      for (const int reader : port.readers) {
        if (!crosses_hosts(port.writer, reader)) {
          local = true;
          continue;
        }
        Times sending = price(table_.remote_us_per_byte, chunks);
        add(sending, table_.remote_message_us);
        add(us, sending);
      }
    if (local) add(us, table_.message_us);
  }

  // Of a message from a rank of this host. Where ranks share cores, some of their messages come from their own core,
  // and what has several readers is fetched once for the `takers` of one core, who find it in its cache.
  double fetch_us_per_byte(double takers) const {
    if (share_ <= 1) return table_.fetch_us_per_byte;
    const double others = std::max(1.0, world_.ranks_of_fullest_host() - 1.0);
    const double from_elsewhere = std::max(0.0, 1 - (share_ - 1) / others);
    return table_.copy_us_per_byte + table_.fetch_us_per_byte * from_elsewhere / takers;
  }

  bool crosses_hosts(int a, int b) const { return !one_host_ && world_.crosses_hosts(a, b); }
  const LinkCost& link_to(int port, int reader) const {
    const int writer = schedule_.ports[static_cast<std::size_t>(port)].writer;
    return crosses_hosts(writer, reader) ? table_.remote : table_.local;
  }
  // Between the end of a Step and the start of one that waited for its message.
  double arrival_us(const LinkCost& link) const { return link.alpha_us + (share_ > 1 ? table_.switch_us * share_ : 0); }

  const Wiring& wiring_;
  const schedule::Schedule& schedule_;
  const World& world_;
  const CostTable& table_;
  const double share_;
  const bool one_host_;
  const double fetch_us_per_byte_, shared_fetch_us_per_byte_;  // of messages to one reader, and to several
};

}  // namespace

// Sources, measured on a two-core virtual machine (Xeon with AVX-512, 2 MiB of L2 a core) unless stated. "Fitted": to
// medians of `tutti compare` with 2 and 4 ranks on a two-core AMD EPYC (Zen 3, 512 KiB of L2), 8 B to 1 MiB; what lies
// in caches counts, because there the choice between algorithms is close.
const CostTable& built_in_costs() {
  static constexpr CostTable table = {
      .local = {.alpha_us = 0.14, .beta_us_per_byte = 0},           // a cache line's one-way trip between two cores
      .remote = {.alpha_us = 12.0, .beta_us_per_byte = 1 / 2.5e3},  // estimates: kernel TCP on 25 GbE
      .step_us = 0.02,                                              // estimate: about 60 cycles of dispatch
      .message_us = 0.03,                                           // estimate: a header's line stored or polled
      .acknowledge_us = 0.04,           // estimate: one more line that moves between two cores
      .remote_message_us = 3.0,         // half a loopback round trip of spinning sockets: 5.8 us
      .copy_us_per_byte = 1 / 300e3,    // fitted: little, as it hides behind the fetching
      .fetch_us_per_byte = 1 / 15e3,    // fitted: one-shot with 2 ranks moves 12 to 13 GB/s in all
      .remote_us_per_byte = 1 / 4.7e3,  // one loopback stream: 4.7 GB/s
      .reduce_us_per_byte = 1 / 400e3,  // fitted: adding is hidden by the loads
      .switch_us = 1.3,                 // fitted: 2.75 us a message with 2 ranks a core, where one has 0.14 us
  };
  return table;
}

Cost RoundCost::of(std::size_t rounds, std::size_t slice_bytes) const {
  const double further = static_cast<double>(rounds - 1);
  const double bytes = static_cast<double>(slice_bytes);
  return {path.latency_us + further * busy.latency_us,
          (path.transfer_us_per_byte + further * busy.transfer_us_per_byte) * bytes,
          (path.reduction_us_per_byte + further * busy.reduction_us_per_byte) * bytes};
}

double least_us(int messages, const World& world, const CostTable& table) {
  const double alpha = std::min(table.local.alpha_us, table.remote.alpha_us);
  const double share = world.ranks_per_core();
  constexpr double kRounding = 0.999;  // the walk adds up what is multiplied here
  return messages * (alpha + (share > 1 ? table.switch_us * share : 0)) * kRounding;
}

RoundCost measure(const schedule::Schedule& schedule, const World& world, const CostTable& table) {
  // Longest paths are not linear in the bytes, but nearly so: a line through an empty and a typical slice serves.
  const Wiring wiring(schedule);
  const RoundTimes time = Walk(wiring, schedule, world, table).run();
  const auto line = [](const Times& us) {
    const auto [empty, full, moved] = us;
    return RoundCost::Line{empty, (moved - empty) / kTypical, (full - moved) / kTypical};
  };
  return {line(time.path), line(time.busy)};
}

}  // namespace tutti::planner

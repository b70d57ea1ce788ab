#include "src/planner/cost.h"

#include <algorithm>

#include "src/schedule/wiring.h"

namespace tutti::planner {
namespace {

using schedule::Destination;
using schedule::Operand;
using schedule::Step;
using schedule::Wiring;

// Time of one round in which every chunk has `bytes` bytes.
struct RoundTime {
  double path_us = 0;
  double busy_us = 0;
};

class Walk {
 public:
  Walk(const Wiring& wiring, const schedule::Schedule& schedule, const World& world, const CostTable& table)
      : wiring_(wiring),
        schedule_(schedule),
        world_(world),
        table_(table),
        order_(wiring.firing_order()),
        share_(world.ranks_per_core()) {}

  RoundTime run(double bytes) const {
    std::vector<double> end(static_cast<std::size_t>(wiring_.size()), 0.0);
    std::vector<double> free_at(schedule_.programs.size(), 0.0), busy(schedule_.programs.size(), 0.0);
    std::vector<double> link_busy(schedule_.ports.size(), 0.0);
    RoundTime time;
    for (const int id : order_) {
      const auto rank = static_cast<std::size_t>(wiring_.place(id).rank);
      double start = free_at[rank];
      const auto senders = wiring_.senders(id);
      for (std::size_t i = 0; i < senders.size(); ++i) {
        if (senders[i] < 0) continue;
        const int port = wiring_.step(id).in[i].index;
        const LinkCost& link = link_to(port, static_cast<int>(rank));
        const double moved = link.beta_us_per_byte * bytes * wiring_.step(id).chunks;
        link_busy[static_cast<std::size_t>(port)] += moved;
        start = std::max(start, end[static_cast<std::size_t>(senders[i])] + moved + arrival_us(link));
      }
      // Earlier Steps of this rank have run: it runs them one after another, in this order.
      const double work = step_us(id, bytes) * share_;
      end[static_cast<std::size_t>(id)] = free_at[rank] = start + work;
      busy[rank] += work;
      time.path_us = std::max(time.path_us, start + work);
    }
    for (const double us : busy) time.busy_us = std::max(time.busy_us, us);
    for (const double us : link_busy) time.busy_us = std::max(time.busy_us, us);
    if (share_ > 1) time.busy_us += table_.switch_us * share_;  // the ranks of a core take turns at least once a round
    return time;
  }

 private:
  // What the Step costs its rank's core.
  double step_us(int id, double chunk_bytes) const {
    const Step& step = wiring_.step(id);
    const int rank = wiring_.place(id).rank;
    const double bytes = chunk_bytes * step.chunks;
    double us = table_.step_us;
    for (const Operand& operand : step.in) {
      if (operand.kind == Operand::Kind::local) {
        us += table_.copy_us_per_byte * bytes;
        continue;
      }
      if (schedule_.ports[static_cast<std::size_t>(operand.index)].acknowledged) us += table_.acknowledge_us;
      us += &link_to(operand.index, rank) == &table_.remote
                ? table_.remote_message_us + (table_.remote_us_per_byte + table_.copy_us_per_byte) * bytes
                : table_.message_us + fetch_us_per_byte(operand.index) * bytes;
    }
    if (step.in.size() > 1) us += table_.reduce_us_per_byte * bytes * static_cast<double>(step.in.size() - 1);
    for (const Destination& destination : step.out) {
      us += table_.copy_us_per_byte * bytes;
      if (destination.kind != Destination::Kind::send) continue;
      bool local = false;
      for (const int reader : schedule_.ports[static_cast<std::size_t>(destination.index)].readers) {
        if (world_.crosses_hosts(rank, reader))
          us += table_.remote_message_us + table_.remote_us_per_byte * bytes;
        else
          local = true;
      }
      if (local) us += table_.message_us;
    }
    return us;
  }

  // Of a message from a rank of this host. Where ranks share cores, some of their messages come from their own core,
  // and what has several readers is fetched once for those of one core, who find it in its cache.
  double fetch_us_per_byte(int port) const {
    if (share_ <= 1) return table_.fetch_us_per_byte;
    const double others = std::max(1.0, world_.ranks_of_fullest_host() - 1.0);
    const double from_elsewhere = std::max(0.0, 1 - (share_ - 1) / others);
    const bool several = schedule_.ports[static_cast<std::size_t>(port)].readers.size() > 1;
    return table_.copy_us_per_byte + table_.fetch_us_per_byte * from_elsewhere / (several ? share_ : 1);
  }

  const LinkCost& link_to(int port, int reader) const {
    const int writer = schedule_.ports[static_cast<std::size_t>(port)].writer;
    return world_.crosses_hosts(writer, reader) ? table_.remote : table_.local;
  }
  // Between the end of a Step and the start of one that waited for its message.
  double arrival_us(const LinkCost& link) const { return link.alpha_us + (share_ > 1 ? table_.switch_us * share_ : 0); }

  const Wiring& wiring_;
  const schedule::Schedule& schedule_;
  const World& world_;
  const CostTable& table_;
  std::vector<int> order_;
  double share_;
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

RoundCost measure(const schedule::Schedule& schedule, const World& world, const CostTable& table) {
  // Longest paths are not linear in the bytes, but nearly so: a line through an empty and a typical slice serves.
  constexpr double kTypical = 32 << 10;
  const Wiring wiring(schedule);
  CostTable no_reduction = table;
  no_reduction.reduce_us_per_byte = 0;
  const Walk walk(wiring, schedule, world, table);
  const RoundTime empty = walk.run(0), full = walk.run(kTypical);
  const RoundTime moved = Walk(wiring, schedule, world, no_reduction).run(kTypical);
  const auto line = [&](double RoundTime::*time) {
    return RoundCost::Line{empty.*time, (moved.*time - empty.*time) / kTypical, (full.*time - moved.*time) / kTypical};
  };
  return {line(&RoundTime::path_us), line(&RoundTime::busy_us)};
}

}  // namespace tutti::planner

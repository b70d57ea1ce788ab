#include "bench/perf/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "bench/perf/measure.h"
#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kHostText = 64;  // characters of a host name in the header

// Every rank's process and host; talks to the others.
std::vector<RankInfo> gather_ranks(Peer& peer) {
  std::array<double, 1 + kHostText> mine{};
  std::array<char, kHostText + 1> host{};
  ::gethostname(host.data(), kHostText);
  mine[0] = static_cast<double>(::getpid());
  for (std::size_t i = 0; i < kHostText; ++i) mine[i + 1] = static_cast<unsigned char>(host[i]);
  std::vector<double> all(mine.size() * static_cast<std::size_t>(peer.size()));
  peer.gather(mine.data(), mine.size(), all.data());
  std::vector<RankInfo> ranks;
  for (int r = 0; r < peer.size(); ++r) {
    const double* record = all.data() + mine.size() * static_cast<std::size_t>(r);
    RankInfo info{r, static_cast<long>(record[0]), {}};
    for (std::size_t i = 0; i < kHostText && record[i + 1] != 0; ++i) info.host += static_cast<char>(record[i + 1]);
    ranks.push_back(info);
  }
  return ranks;
}

void print_header(std::ostream& out, const Options& o, const std::vector<RankInfo>& ranks, const std::string& program,
                  const std::string& json_path) {
  if (!json_path.empty()) out << "# Writing JSON output to " << json_path << "\n";
  out << "# Collective test starting: " << program << "\n"
      << "# nThread " << o.threads << " nGpus " << o.ranks_per_thread << " minBytes " << o.min_bytes << " maxBytes "
      << o.max_bytes << " step: " << (o.step_factor > 1 ? o.step_factor : o.step_bytes)
      << (o.step_factor > 1 ? "(factor)" : "(bytes)") << " warmup iters: " << o.warmup << " iters: " << o.iterations
      << " agg iters: " << o.aggregate << " validation: " << o.check << " graph: 0 unalign: " << o.misalign << "\n";
  if (o.blocking == Blocking::barrier_each_call) out << "# Blocking: a barrier after each call\n";
  if (o.blocking == Blocking::barrier_each_loop) out << "# Blocking: a barrier after each iteration\n";
  if (o.touch) out << "# Touched: inputs rewritten before, outputs read after each call; only the call is timed\n";
  out << "# Memory: " << (o.memory == BufferMemory::tutti ? "tutti (of tutti::alloc)" : name_of(o.memory)) << "\n";
  if (!o.algorithm.empty()) out << "# Forced algorithm: " << o.algorithm << "\n";
  out << "#\n# Using " << ranks.size() << (ranks.size() == 1 ? " rank\n" : " ranks\n");
  for (const RankInfo& rank : ranks)
    out << "#  Rank " << rank.rank << " Pid " << rank.process << " on " << rank.host << " host memory\n";
  out << "#\n" << table_header(o) << std::flush;
}

void check_memory(Peer& peer, const CollectiveUnderTest& collective, const Options& options) {
  const std::size_t per_rank = Measurement::footprint(collective, options, peer.size());
  const auto local = static_cast<std::size_t>(peer.local_size());
  const std::size_t available = available_memory();
  // The readings of several processes differ a little: the ranks act on the smallest margin.
  const double mine = static_cast<double>(available) - static_cast<double>(per_rank) * static_cast<double>(local);
  std::vector<double> margins(static_cast<std::size_t>(peer.size()));
  peer.gather(&mine, 1, margins.data());
  if (*std::min_element(margins.begin(), margins.end()) >= 0) return;
  const std::size_t fits = available / local / 2 / 4096 * 4096;
  throw Error(ErrorCode::invalid_argument,
              "-e is '" + std::to_string(options.max_bytes) + "', for which " + std::to_string(local) +
                  " ranks on this host need " + base::format_bytes(per_rank * local) + " of buffers, but " +
                  base::format_bytes(available) + " are available; valid: up to about " + base::format_bytes(fits));
}

std::vector<int> roots(const CollectiveUnderTest& collective, const Options& options, int ranks) {
  if (!collective.rooted()) return {-1};
  if (options.roots.front() >= 0) return options.roots;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) all[static_cast<std::size_t>(r)] = r;
  return all;
}

// The rows of one cycle, in nccl-tests' order: types, ops, roots, sizes. An op is left out for types it cannot reduce.
std::vector<RowSpec> rows(const CollectiveUnderTest& collective, const Options& options, int ranks) {
  std::vector<RowSpec> list;
  for (const DataType type : options.types)
    for (const ReduceOp op : collective.reduces() ? options.ops : std::vector{ReduceOp::sum}) {
      if (!can_reduce(type, op)) continue;
      for (const int root : roots(collective, options, ranks))
        for (const std::size_t size : sizes(options)) list.push_back({size / size_of(type), type, op, root});
    }
  return list;
}

}  // namespace

void check_job(Peer& peer, const CollectiveUnderTest& collective, const Options& options) {
  for (const int root : options.roots)
    if (root >= peer.size())
      throw Error(ErrorCode::invalid_argument, "-r is '" + std::to_string(root) + "'; valid for " +
                                                   std::to_string(peer.size()) + " ranks: 0 to " +
                                                   std::to_string(peer.size() - 1) + ", all");
  const bool some_op = std::any_of(options.ops.begin(), options.ops.end(), [&](ReduceOp op) {
    return std::any_of(options.types.begin(), options.types.end(), [&](DataType type) { return can_reduce(type, op); });
  });
  if (collective.reduces() && !some_op)
    throw Error(ErrorCode::invalid_argument,
                "-o is '" + std::string(name_of(options.ops.front())) + "'; valid for elements of type " +
                    std::string(name_of(options.types.front())) + ": " + valid_ops(options.types.front()));
  if (const std::string why = collective.refusal(peer.size()); !why.empty())
    throw Error(ErrorCode::invalid_argument, why);
  if (!options.algorithm.empty()) {
    if (!collective.collective())
      throw Error(ErrorCode::invalid_argument, "--algo is '" + options.algorithm + "', but " +
                                                   std::string(collective.name()) +
                                                   " is made of messages between two ranks; valid: no --algo");
    base::parse_choice("--algo", options.algorithm, peer.algorithms(*collective.collective()));
    peer.force_algorithm(options.algorithm);
  }
  check_memory(peer, collective, options);
}

Totals sweep(Peer& peer, const CollectiveUnderTest& collective, const Options& options, JsonReport& json,
             const std::string& program, std::ostream& out, std::string& complaint) {
  const bool reports = peer.rank() == 0;
  const double bus_factor = collective.bus_factor(peer.size());
  const std::vector<RankInfo> ranks = gather_ranks(peer);
  if (reports) {
    print_header(out, options, ranks, program, json.path());
    json.config(options, ranks);
  }
  Measurement measurement(peer, collective, options);
  Totals totals;
  for (int cycle = 0; options.cycles == 0 || cycle < options.cycles; ++cycle)
    for (const RowSpec& spec : rows(collective, options, peer.size())) {
      const Row row = measurement.run(spec);
      totals.add(row, bus_factor);
      complaint = measurement.complaint();
      if (!reports) continue;
      out << table_row(row, options, bus_factor) << std::flush;
      json.row(row, options, bus_factor, program);
    }
  if (reports) {
    out << table_footer(totals, program);
    if (options.memory_report)
      out << "# "
          << "Memory usage         : " << base::format_bytes(Measurement::footprint(collective, options, peer.size()))
          << " of buffers per rank\n";
    out << std::flush;
  }
  return totals;
}

}  // namespace tutti::perf

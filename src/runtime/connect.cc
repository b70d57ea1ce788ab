#include "src/runtime/connect.h"

#include <sodium.h>

#include <algorithm>
#include <numeric>

#include "src/base/address.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/base/variables.h"
#include "src/runtime/facts.h"

namespace tutti::runtime {
namespace {

// Bytes of the arena for the barrier ring that is always there.
constexpr std::size_t kReservedArena = std::size_t{1} << 20;

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

// A time that an operation may take. Longer ones would overflow the clock.
void check_timeout(const char* name, std::chrono::milliseconds value) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1000);
  if (value >= std::chrono::milliseconds(1) && value <= kLongest) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + " is " + std::to_string(value.count()) + " ms; valid: 1 ms to 1000 h");
}

void check_config(const Config& config) {
  check_timeout("the timeout (TUTTI_TIMEOUT or Config::timeout)", config.timeout);
  check_timeout("the timeout of connecting (TUTTI_INIT_TIMEOUT or Config::init_timeout)", config.init_timeout);
  constexpr std::size_t kMost = std::size_t{1} << 40;
  if (config.buffer_limit == 0 || config.buffer_limit > kMost)
    throw Error(ErrorCode::invalid_argument, "the buffer limit (TUTTI_BUFFER_LIMIT or Config::buffer_limit) is " +
                                                 std::to_string(config.buffer_limit) +
                                                 " bytes; valid: more than 0 and at most 1 TiB");
}

// What no field of Config says, also where it will not be needed: a typo shall not wait for the day on which a rank is
// on another host.
void check_environment(const Job& job) {
  constexpr const char* kInterfaces = "TUTTI_SOCKET_IFNAME";
  if (const auto filter = base::env(kInterfaces)) base::filter_interfaces(kInterfaces, *filter, base::interfaces());
  if (job.local_rank.value_or(0) == 0) base::warn_of_unknown_variables();  // once a host, if the launcher tells
}

class Connecting {
 public:
  Connecting(const Job& job, const Config& config, const Parts& parts)
      : job_(job), config_(config), parts_(parts), deadline_(Clock::now() + config.init_timeout) {}

  Station run() {
    station_.rank = job_.rank;
    station_.size = job_.size;
    station_.config = config_;
    station_.kernels = parts_.kernels;
    station_.transport_of.assign(static_cast<std::size_t>(job_.size), nullptr);
    check_config(config_);
    check_environment(job_);
    check_transport_name();
    if (job_.size == 1) {
      // A meeting that somebody holds open must hear that its one rank has come.
      if (job_.source == "unique id") static_cast<void>(ControlPlane::connect(job_, deadline_, {}));
      planner::World alone;
      alone.forced_algorithm = config_.algorithm;
      alone.buffer_limit = config_.buffer_limit;
      station_.memory_domain = {0};
      station_.plans = std::make_unique<Plans>(std::make_shared<SharedPlanner>(alone));
      return std::move(station_);
    }
    station_.engine = Engine::acquire();
    station_.control = ControlPlane::connect(job_, deadline_, [board = station_.board] { return board->read(); });
    try {
      exchange_facts();
      make_transports();
      exchange_addresses();
      join_ranks();
      prepare_reunions();
      station_.control->all_gather({}, deadline_);  // nobody starts before everybody is ready
    } catch (const Error& error) {
      fail(error);
    } catch (const std::exception& error) {
      fail(Error(ErrorCode::internal_error, error.what()));
    }
    return std::move(station_);
  }

 private:
  // Tells all ranks why this one gives up, so that none of them waits for it, and throws.
  [[noreturn]] void fail(const Error& error) {
    // Ranks that are threads of this process may be about to take their share in our arena (see the shm transport):
    // what they read of it stays.
    if (!station_.transports.empty())
      static_cast<void>(new std::vector<std::unique_ptr<Transport>>(std::move(station_.transports)));
    if (!station_.control->fault_raised())
      station_.control->raise(error.code(), rank_name(job_.rank) + ": " + error.what());
    throw error;
  }

  void check_transport_name() const {
    if (config_.transport.empty()) return;
    std::string valid;
    for (const TransportKind& kind : parts_.transports) {
      if (kind.name == config_.transport) return;
      valid += (valid.empty() ? "" : ", ") + kind.name;
    }
    throw Error(ErrorCode::invalid_argument,
                "the transport (TUTTI_TRANSPORT or Config::transport) is '" + config_.transport + "'; valid: " + valid);
  }

  void exchange_facts() {
    const std::vector<Blob> blobs =
        station_.control->all_gather(to_blob(facts_of_this_rank(config_, job_.rank, job_.size)), deadline_);
    for (int rank = 0; rank < job_.size; ++rank)
      facts_.push_back(facts_from_blob(blobs[static_cast<std::size_t>(rank)], rank));
    check_agreement(facts_);
    planner::World world = world_of(facts_);
    host_of_rank_ = world.host_of_rank;
    const int my_host = host_of_rank_[static_cast<std::size_t>(job_.rank)];
    const auto same = [my_host](int host) { return host == my_host; };
    station_.local_size = static_cast<int>(std::count_if(host_of_rank_.begin(), host_of_rank_.end(), same));
    station_.local_rank =
        static_cast<int>(std::count_if(host_of_rank_.begin(), host_of_rank_.begin() + job_.rank, same));
    station_.spare_cores = world.ranks_per_core() <= 1 &&
                           (world.cores_per_host == 0 || world.cores_per_host >= 2 * world.ranks_of_fullest_host());
    if (world.ranks_per_core() > 1)
      station_.cores = one_scheduling_group(facts_, host_of_rank_) ? Cores::shared : Cores::shared_between_groups;
    station_.config.buffer_limit = world.buffer_limit;
    station_.plans = std::make_unique<Plans>(station_.engine->planner_for(world));
  }

  // Whether some pair of ranks can use this kind, as all ranks judge alike.
  bool wanted(const TransportKind& kind) const {
    if (!config_.transport.empty()) return kind.name == config_.transport;
    const bool one_host =
        std::all_of(host_of_rank_.begin(), host_of_rank_.end(), [this](int host) { return host == host_of_rank_[0]; });
    return kind.same_host_only || !one_host;
  }

  void make_transports() {
    station_.arena = std::make_shared<Arena>(facts_[0].nonce, job_.rank, station_.config.buffer_limit + kReservedArena);
    TransportContext context;
    context.rank = job_.rank;
    context.size = job_.size;
    context.communicator = facts_[0].nonce;
    context.secret = job_.meeting.secret;
    context.arena = station_.arena;
    context.engine = station_.engine;
    context.connect_timeout = std::min(config_.init_timeout, std::chrono::milliseconds(10'000));
    context.memory_limit = station_.config.buffer_limit + kReservedArena;
    for (const TransportKind& kind : parts_.transports) {
      if (!wanted(kind)) continue;
      station_.transports.push_back(kind.make(context));
      kinds_.push_back(&kind);
    }
  }

  void exchange_addresses() {
    for (const auto& transport : station_.transports)
      transport->set_peers(station_.control->all_gather(transport->address(), deadline_));
  }

  // Gives every pair of ranks its transport: the first one that is meant for such a pair. The choice follows from facts
  // all ranks know, so both ends choose alike; that shared memory works is tried here, and its failure is an Error.
  void join_ranks() {
    for (int peer = 0; peer < job_.size; ++peer)
      if (peer != job_.rank) station_.transport_of[static_cast<std::size_t>(peer)] = &choose(peer);
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      if (!kinds_[i]->same_host_only) station_.movers.push_back(station_.transports[i].get());
    find_bells();
    station_.memory_domain = host_of_rank_;
    if (!station_.transports.empty() && !kinds_[0]->same_host_only)  // no shared memory: to each its own
      std::iota(station_.memory_domain.begin(), station_.memory_domain.end(), 0);
  }

  // On one host a name is enough; of another one the members must know an address that will still be there.
  void prepare_reunions() {
    Reunion& reunion = station_.reunion;
    reunion.communicator = facts_[0].nonce;
    reunion.secret = job_.meeting.secret;
    if (std::all_of(host_of_rank_.begin(), host_of_rank_.end(), [](int host) { return host == 0; })) return;
    reunion.listener = base::listen_everywhere();
    const ReunionPlace own{base::reachable_addresses(), base::local_address(reunion.listener.get()).port};
    const std::vector<Blob> blobs = station_.control->all_gather(to_blob(own), deadline_);
    for (int rank = 0; rank < job_.size; ++rank)
      reunion.places.push_back(reunion_place_from_blob(blobs[static_cast<std::size_t>(rank)], rank));
  }

  // What ends this rank's sleep. Ranks of this host ring only if barriers reach all of them.
  void find_bells() {
    const int here = host_of_rank_[static_cast<std::size_t>(job_.rank)];
    bool barriers = true;
    for (std::size_t rank = 0; rank < facts_.size(); ++rank)
      barriers = barriers && (host_of_rank_[rank] != here || facts_[rank].barriers);
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const int bell = station_.transports[i]->bell();
      if (bell < 0 || (kinds_[i]->same_host_only && !barriers)) return station_.bells.clear();
      station_.rung = station_.rung || kinds_[i]->same_host_only;
      station_.bells.push_back(bell);
    }
  }

  Transport& choose(int peer) {
    const bool same_host =
        host_of_rank_[static_cast<std::size_t>(peer)] == host_of_rank_[static_cast<std::size_t>(job_.rank)];
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i]->same_host_only && !same_host) continue;
      Transport& transport = *station_.transports[i];
      if (!kinds_[i]->same_host_only) return transport;  // tried when a plan first uses it
      if (const auto reason = transport.unreachable(peer))
        throw Error(ErrorCode::system_error, "rank " + std::to_string(job_.rank) + " cannot reach rank " +
                                                 std::to_string(peer) + " by " + kinds_[i]->name + ": " + *reason);
      return transport;
    }
    throw Error(ErrorCode::invalid_argument, "no transport joins rank " + std::to_string(job_.rank) + " and rank " +
                                                 std::to_string(peer) + ", which are on different hosts (" +
                                                 facts_[static_cast<std::size_t>(job_.rank)].hostname + " and " +
                                                 facts_[static_cast<std::size_t>(peer)].hostname +
                                                 "); TUTTI_TRANSPORT is '" + config_.transport + "'");
  }

  const Job& job_;
  const Config& config_;
  const Parts& parts_;
  const Clock::time_point deadline_;
  Station station_;
  std::vector<Facts> facts_;
  std::vector<int> host_of_rank_;
  std::vector<const TransportKind*> kinds_;  // parallel to station_.transports
};

}  // namespace

Station connect(const Job& job, const Config& config, const Parts& parts) {
  if (sodium_init() < 0)
    throw Error(ErrorCode::system_error, "libsodium cannot be initialised: no source of randomness");
  return Connecting(job, config, parts).run();
}

}  // namespace tutti::runtime

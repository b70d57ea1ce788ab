#include "src/runtime/job_launchers.h"

#include <unistd.h>

#include <fstream>

#include "src/base/env.h"
#include "src/runtime/job_slurm.h"
#include "src/runtime/rendezvous.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

// Slurm's port: below the range that kernels give to outgoing connections, from the job's and the step's number.
constexpr std::int64_t kFirstPort = 10'000;
constexpr std::int64_t kPorts = 20'000;

[[noreturn]] void reject(const std::string& text) { throw Error(ErrorCode::invalid_argument, text); }

struct Names {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

std::optional<int> number(const Environment& environment, const char* name, int low, int high) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  return static_cast<int>(base::parse_integer(name, *text, low, high));
}

void read_local(const Environment& environment, const Names& names, Launch& launch) {
  launch.local_size = number(environment, names.local_size, 1, launch.size);
  launch.local_rank = number(environment, names.local_rank, 0, launch.local_size.value_or(launch.size) - 1);
}

// Rank and size of a launcher that always sets both.
std::optional<Launch> read_pair(const Environment& environment, const Names& names) {
  const auto rank = environment(names.rank);
  const auto size = environment(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size)
    reject(std::string(rank ? names.rank : names.size) + " is '" + (rank ? *rank : *size) + "' but " +
           (rank ? names.size : names.rank) + " is not set: set both " + names.rank + " and " + names.size +
           ", or neither");
  Launch launch;
  launch.source = names.source;
  launch.rank_variable = names.rank;
  launch.size = static_cast<int>(base::parse_integer(names.size, *size, 1, kMaxRanks));
  launch.rank = static_cast<int>(base::parse_integer(names.rank, *rank, 0, launch.size - 1));
  read_local(environment, names, launch);
  return launch;
}

std::optional<Launch> own(const Environment& environment) {
  auto launch =
      read_pair(environment, {"TUTTI_RANK", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"});
  if (launch) launch->id = environment("TUTTI_JOB").value_or("tutti");
  return launch;
}

std::optional<Launch> torchrun(const Environment& environment) {
  // Batch scripts export WORLD_SIZE and leave the rank to srun or mpirun, so WORLD_SIZE alone says nothing.
  if (!environment("RANK")) return std::nullopt;
  auto launch = read_pair(environment, {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  const auto run = environment("TORCHELASTIC_RUN_ID");
  if (!run && environment("TUTTI_RENDEZVOUS") && environment("TUTTI_SECRET")) launch->source = "tutti run";
  launch->elastic = run.has_value();
  launch->id = "run " + run.value_or("-") + " restart " + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  const auto store = environment("TORCHELASTIC_USE_AGENT_STORE");
  launch->store =
      store && base::parse_choice("TORCHELASTIC_USE_AGENT_STORE", *store, {"True", "False", "1", "0"}) == "True";
  return launch;
}

std::optional<Launch> open_mpi(const Environment& environment) {
  auto launch = read_pair(environment, {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!launch) return launch;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"})
    if (const auto id = environment(name); id && launch->id.empty()) launch->id = *id;
  return launch;
}

// hydra starts every rank of a host from one proxy; its pid names the job on this host. Wrappers may lie between.
std::string proxy_of_this_process() {
  int pid = ::getppid();
  for (int depth = 0; depth < 16 && pid > 1; ++depth) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto open = text.find('('), close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 > text.size()) break;
    if (text.compare(open + 1, 5, "hydra") == 0) return "hydra " + std::to_string(pid);
    pid = std::atoi(text.c_str() + close + 4);  // ") S 123": the parent
  }
  return "parent " + std::to_string(::getppid());
}

std::optional<Launch> pmi(const Environment& environment) {
  auto launch = read_pair(environment, {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  if (!launch) return launch;
  if (!launch->local_size)
    read_local(environment, {"MPICH", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}, *launch);
  const auto id = environment("PMI_JOBID");
  launch->id = id ? *id : proxy_of_this_process();
  return launch;
}

std::optional<Launch> mvapich(const Environment& environment) {
  auto launch = read_pair(environment, {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"});
  if (launch) launch->id = environment("MPIRUN_ID").value_or(environment("PMI_JOBID").value_or("parent"));
  return launch;
}

std::optional<Launch> slurm(const Environment& environment) {
  // A batch script or a shell of salloc has SLURM_PROCID and SLURM_NTASKS too, but is one process: only a step counts.
  const auto step = environment("SLURM_STEP_ID");
  const auto rank = environment("SLURM_PROCID");
  if (!step || !rank) return std::nullopt;
  const char* size_name = "SLURM_STEP_NUM_TASKS";
  for (const char* other : {"SLURM_NTASKS", "SLURM_NPROCS"})
    if (!environment(size_name)) size_name = other;
  const auto size = environment(size_name);
  if (!size)
    reject("SLURM_PROCID is '" + *rank +
           "' but neither SLURM_STEP_NUM_TASKS, SLURM_NTASKS nor SLURM_NPROCS is set: "
           "start the program with srun, or set TUTTI_RANK and TUTTI_SIZE");
  Launch launch;
  launch.source = "srun";
  launch.rank_variable = "SLURM_PROCID";
  launch.size = static_cast<int>(base::parse_integer(size_name, *size, 1, kMaxRanks));
  launch.rank = static_cast<int>(base::parse_integer("SLURM_PROCID", *rank, 0, launch.size - 1));
  launch.local_rank = number(environment, "SLURM_LOCALID", 0, launch.size - 1);
  if (const auto list = environment("SLURM_STEP_TASKS_PER_NODE")) {
    const auto tasks = tasks_per_node("SLURM_STEP_TASKS_PER_NODE", *list);
    const auto node = number(environment, "SLURM_NODEID", 0, static_cast<int>(tasks.size()) - 1);
    if (node) launch.local_size = tasks[static_cast<std::size_t>(*node)];
  }
  constexpr std::int64_t kMaxId = 0xffffffffll;
  const auto step_number = base::parse_integer("SLURM_STEP_ID", *step, 0, kMaxId);
  const auto job = environment("SLURM_JOB_ID").value_or("0");
  const auto job_number = base::parse_integer("SLURM_JOB_ID", job, 0, kMaxId);
  launch.id = job + "." + *step;
  launch.port = static_cast<std::uint16_t>(kFirstPort + (job_number * 101 + step_number) % kPorts);
  // Never SLURM_LAUNCH_NODE_IPADDR: that is where srun runs, often a login node.
  if (const auto list = environment("SLURM_STEP_NODELIST")) launch.host = first_host("SLURM_STEP_NODELIST", *list);
  return launch;
}

std::optional<Launch> pmix(const Environment& environment) {
  const auto rank = environment("PMIX_RANK");
  if (!rank) return std::nullopt;
  const auto size = environment("WORLD_SIZE");
  if (!size)
    reject("PMIX_RANK is '" + *rank + "' but nothing says how many ranks there are: set TUTTI_RANK and TUTTI_SIZE");
  auto launch = read_pair(environment, {"PMIx", "PMIX_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  launch->id = environment("PMIX_NAMESPACE").value_or("");
  return launch;
}

}  // namespace

std::string Launch::text() const {
  return rank_variable + "=" + std::to_string(rank) + " of " + std::to_string(size) + " (" + source + ")";
}

std::vector<Launch> launches(const Environment& environment) {
  std::vector<Launch> found;
  for (const auto read : {own, torchrun, open_mpi, mvapich, pmi, slurm}) {
    // Only the first source must make sense: what lies below it may be left from an outer launcher.
    try {
      if (auto launch = read(environment)) found.push_back(std::move(*launch));
    } catch (const Error&) {
      if (found.empty()) throw;
    }
  }
  if (found.empty())
    if (auto launch = pmix(environment)) found.push_back(std::move(*launch));
  return found;
}

std::pair<std::string, std::uint16_t> parse_address(std::string_view variable, std::string_view text) {
  const auto bad = [&] {
    reject(std::string(variable) + " is '" + std::string(text) +
           "'; valid: host:port or [IPv6 address]:port, with a port from 1 to 65535");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) bad();
  std::string host(text.substr(0, colon));
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') bad();
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string::npos) {
    bad();
  }
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string_view::npos) bad();
  const int value = std::stoi(std::string(port));
  if (value < 1 || value > 65535) bad();
  return {host, static_cast<std::uint16_t>(value)};
}

}  // namespace tutti::runtime

// tutti run: starts the ranks of a job on this host or over ssh. This file reads the flags and makes each rank's
// command and environment; run_launcher.cc runs them.
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/topology/rank_order.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/run_hosts.h"
#include "tools/tutti/run_launcher.h"

namespace tutti::tools {
namespace {

constexpr int kMostRanks = 4096;

struct RunFlags {
  std::string ranks;
  std::string timeout;
  std::string grace = "5s";
  bool bind = false;
  bool prefix = false;
  bool no_prefix = false;
  std::string output;
  std::string hosts;
  std::vector<std::string> env;
  std::string master_addr;
  std::string master_port;
  std::string program;
  std::vector<std::string> arguments;
};

using Environment = std::map<std::string, std::string>;

// What makes a job of the ranks; the same on all hosts.
struct JobSettings {
  int size = 1;
  int hosts = 1;
  std::string master_addr;
  int master_port = 0;
  int rendezvous_port = 0;
  std::string secret;
};

// Variables of other launchers: tutti run may itself run under one, and its ranks must not take that one's numbers.
constexpr const char* kForeignVariables[] = {"OMPI_COMM_WORLD_RANK",
                                             "OMPI_COMM_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_RANK",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                                             "PMI_RANK",
                                             "PMI_SIZE",
                                             "PMIX_RANK",
                                             "MPI_LOCALRANKID",
                                             "MPI_LOCALNRANKS",
                                             "SLURM_PROCID",
                                             "SLURM_LOCALID",
                                             "SLURM_NTASKS",
                                             "SLURM_NPROCS",
                                             "SLURM_STEP_ID",
                                             "SLURM_STEP_NUM_TASKS",
                                             "TORCHELASTIC_USE_AGENT_STORE",
                                             "TORCHELASTIC_RUN_ID",
                                             "TORCHELASTIC_RESTART_COUNT"};

constexpr const char* kOwnVariables[] = {"RANK",         "WORLD_SIZE",       "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",   "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                         "TUTTI_SECRET", "TUTTI_RENDEZVOUS"};

std::string hexadecimal_secret() {
  std::array<unsigned char, 32> bytes{};
  std::array<char, 65> text{};
  randombytes_buf(bytes.data(), bytes.size());
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  return text.data();
}

// Whether rank 0 could listen there now: by the call that it will make.
bool is_free(int port) {
  try {
    base::listen_everywhere(static_cast<std::uint16_t>(port));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A port for the ranks to listen on, drawn below the range from which systems take ports for outgoing connections, so
// that only another server could take it before rank 0 does.
int free_port(int taken) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int port = 20000 + static_cast<int>(randombytes_uniform(12000));
    if (port != taken && is_free(port)) return port;
  }
  throw Error(ErrorCode::system_error, "no free port was found between 20000 and 31999; give one with --master-port");
}

JobSettings job_settings(const RunFlags& flags, const std::vector<HostSlots>& hosts, int size) {
  if (sodium_init() < 0) throw Error(ErrorCode::system_error, "libsodium found no source of random numbers");
  JobSettings job;
  job.size = size;
  job.hosts = static_cast<int>(std::max<std::size_t>(1, hosts.size()));
  job.master_addr = !flags.master_addr.empty() ? flags.master_addr
                    : hosts.empty()            ? "127.0.0.1"
                                               : address_of(hosts.front().host);
  if (hosts.size() > 1 &&
      (job.master_addr == "localhost" || job.master_addr.starts_with("127.") || job.master_addr == "::1"))
    throw Error(ErrorCode::invalid_argument,
                "the first host is '" + job.master_addr +
                    "', which means another machine on every host; name it as the others reach it, here or with "
                    "--master-addr");
  job.master_port = flags.master_port.empty()
                        ? free_port(0)
                        : static_cast<int>(base::parse_integer("--master-port", flags.master_port, 1, 65535));
  job.rendezvous_port = free_port(job.master_port);
  job.secret = hexadecimal_secret();
  return job;
}

Environment given_settings(const RunFlags& flags) {
  Environment given;
  for (const std::string& setting : flags.env) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (equals == std::string::npos || name.empty())
      throw Error(ErrorCode::invalid_argument, "--env is '" + setting + "'; valid: NAME=VALUE");
    if (std::find(std::begin(kOwnVariables), std::end(kOwnVariables), name) != std::end(kOwnVariables))
      throw Error(
          ErrorCode::invalid_argument,
          "--env sets " + name + ", which tutti run sets itself (flags: -n, --hosts, --master-addr, --master-port)");
    given[name] = setting.substr(equals + 1);
  }
  return given;
}

// Without the secret, which must not appear in a remote command line.
Environment rank_settings(const JobSettings& job, const Environment& given, int rank, int host, int local_rank,
                          int local_size) {
  Environment settings = given;
  settings["RANK"] = std::to_string(rank);
  settings["WORLD_SIZE"] = std::to_string(job.size);
  settings["LOCAL_RANK"] = std::to_string(local_rank);
  settings["LOCAL_WORLD_SIZE"] = std::to_string(local_size);
  settings["GROUP_RANK"] = std::to_string(host);
  settings["GROUP_WORLD_SIZE"] = std::to_string(job.hosts);
  settings["MASTER_ADDR"] = job.master_addr;
  settings["MASTER_PORT"] = std::to_string(job.master_port);
  const bool v6 = job.master_addr.find(':') != std::string::npos;
  settings["TUTTI_RENDEZVOUS"] =
      (v6 ? "[" + job.master_addr + "]" : job.master_addr) + ":" + std::to_string(job.rendezvous_port);
  return settings;
}

std::vector<std::string> as_list(const Environment& settings) {
  std::vector<std::string> list;
  for (const auto& [name, value] : settings) list.push_back(name + "=" + value);
  return list;
}

Environment inherited_environment() {
  Environment inherited;
  for (char** setting = environ; *setting != nullptr; ++setting) {
    const std::string text = *setting;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) inherited[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const char* name : kForeignVariables) inherited.erase(name);
  return inherited;
}

// Threads of the programs' libraries, so that ranks do not crowd each other out.
void limit_threads(Environment& environment, const topology::Topology& machine, int ranks) {
  const std::string threads = std::to_string(std::max(1, topology::usable_cores(machine) / ranks));
  std::string set;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    if (environment.try_emplace(name, threads).second) set += (set.empty() ? "" : " and ") + std::string(name);
  if (!set.empty())
    base::log(base::LogLevel::info, "tutti run sets " + set + " to " + threads + " for each of " +
                                        std::to_string(ranks) + " ranks; set them yourself to choose");
}

std::vector<std::string> program_of(const RunFlags& flags) {
  std::vector<std::string> words{flags.program};
  words.insert(words.end(), flags.arguments.begin(), flags.arguments.end());
  return words;
}

std::vector<RankCommand> local_commands(const RunFlags& flags, const JobSettings& job) {
  const topology::Topology machine = topology::detect();
  const Environment given = given_settings(flags);
  Environment common = inherited_environment();
  for (const auto& [name, value] : given) common[name] = value;
  limit_threads(common, machine, job.size);
  common["TUTTI_SECRET"] = job.secret;
  std::vector<RankCommand> commands;
  for (int rank = 0; rank < job.size; ++rank) {
    RankCommand command;
    command.rank = rank;
    command.argv = program_of(flags);
    command.environment = as_list(rank_settings(job, common, rank, 0, rank, job.size));
    if (flags.bind) command.pus = topology::share_of_pus(machine, rank, job.size);
    commands.push_back(command);
  }
  return commands;
}

std::vector<RankCommand> remote_commands(const RunFlags& flags, const JobSettings& job,
                                         const std::vector<HostSlots>& hosts, std::chrono::milliseconds grace) {
  if (flags.bind)
    throw Error(ErrorCode::invalid_argument, "--bind binds ranks of this host; it cannot be combined with --hosts");
  const std::string shell = base::env("TUTTI_SSH").value_or("ssh -o BatchMode=yes");
  const std::string directory = std::filesystem::current_path().string();
  Environment given = given_settings(flags);
  for (const auto& [name, value] : inherited_environment())  // what concerns the library goes along, as mpirun's does
    if ((name.starts_with("TUTTI_") && name != "TUTTI_SSH" && name != "TUTTI_SECRET") || name.starts_with("NCCL_"))
      given.try_emplace(name, value);
  std::vector<RankCommand> commands;
  int rank = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const int local_size = std::min(hosts[host].slots, job.size - rank);
    for (int local_rank = 0; local_rank < local_size; ++local_rank, ++rank) {
      RemoteRank remote;
      remote.rank = rank;
      remote.host = hosts[host].host;
      remote.local_ranks = local_size;
      remote.settings = as_list(rank_settings(job, given, rank, static_cast<int>(host), local_rank, local_size));
      remote.program = program_of(flags);
      remote.grace_seconds = static_cast<double>(grace.count()) / 1000;
      commands.push_back(remote_command(remote, shell, directory));
    }
  }
  return commands;
}

// -n, or the hosts' slots. Hosts that get no rank are dropped.
int job_size(const RunFlags& flags, std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  if (flags.ranks.empty() && hosts.empty())
    throw Error(ErrorCode::invalid_argument,
                "-n is missing; valid: a whole number from 1 to " + std::to_string(kMostRanks));
  const int size =
      flags.ranks.empty() ? slots : static_cast<int>(base::parse_integer("-n", flags.ranks, 1, kMostRanks));
  if (hosts.empty()) return size;
  if (size > slots)
    throw Error(ErrorCode::invalid_argument,
                "-n is '" + std::to_string(size) + "', but --hosts has room for " + std::to_string(slots) + " ranks");
  int room = 0;
  std::size_t used = 0;
  while (room < size) room += hosts[used++].slots;
  hosts.resize(used);
  return size;
}

std::vector<RankCommand> commands_of(const RunFlags& flags, LaunchOptions& options) {
  std::vector<HostSlots> hosts;
  if (!flags.hosts.empty()) hosts = parse_hosts(flags.hosts);
  const int size = job_size(flags, hosts);
  if (!flags.timeout.empty()) options.timeout = base::parse_duration("--timeout", flags.timeout);
  if (options.timeout && options.timeout->count() == 0)
    throw Error(ErrorCode::invalid_argument, "--timeout is '" + flags.timeout + "'; valid: a duration above 0");
  options.grace = base::parse_duration("--grace", flags.grace);
  options.prefix = flags.prefix || (!flags.no_prefix && size > 1);
  options.output_directory = flags.output;
  const JobSettings job = job_settings(flags, hosts, size);
  options.secret = job.secret;
  return hosts.empty() ? local_commands(flags, job) : remote_commands(flags, job, hosts, options.grace);
}

void make_directory(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path))
    throw Error(ErrorCode::system_error, "cannot make the directory '" + path + "' of --output: " + error.message());
}

// Descriptors 0, 1 and 2 must be taken, or pipes would get these numbers.
void fill_standard_descriptors() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= 2) {
  }
  if (fd > 2) close(fd);
}

// Words after PROGRAM come unparsed; before "--" only flags may stand.
void take_arguments(RunFlags& flags, const std::vector<std::string>& rest) {
  if (rest.empty()) return;
  if (rest.front() != "--") throw CLI::ExtrasError("run", {rest.front()});
  flags.arguments.assign(rest.begin() + 1, rest.end());
}

[[noreturn]] void run(RunFlags& flags, const CLI::App& command) {
  fill_standard_descriptors();
  LaunchOptions options;
  std::vector<RankCommand> commands;
  take_arguments(flags, command.remaining());
  if (flags.program.empty()) throw CLI::RequiredError("PROGRAM (tutti run -n N [flags] -- PROGRAM ARGS)");
  try {
    commands = commands_of(flags, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw CLI::ValidationError(error.what());
  }
  make_directory(flags.output);
  throw CLI::RuntimeError(launch(commands, options));
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Start the ranks of a program: tutti run -n N [flags] -- PROGRAM ARGS");
  auto flags = std::make_shared<RunFlags>();
  const auto text = [&](const std::string& names, std::string& value, const std::string& type,
                        const std::string& help) { command->add_option(names, value, help)->type_name(type); };
  text("-n,--ranks", flags->ranks, "N", "Number of ranks (with --hosts: all of their slots unless given)");
  text("--timeout", flags->timeout, "TIME",
       "End the job after this time (10s, 5min; bare numbers are seconds), status 124");
  text("--grace", flags->grace, "TIME", "Time between SIGTERM and SIGKILL when the job is ended (default 5s)");
  command->add_flag("--bind", flags->bind, "Bind each rank to its share of the cores this process may use");
  auto* prefix = command->add_flag("--prefix", flags->prefix, "Begin each line with \"[rank] \" (default if N > 1)");
  command->add_flag("--no-prefix", flags->no_prefix, "Pass lines on as they are")->excludes(prefix);
  text("--output", flags->output, "DIR", "Write each rank's output to DIR/rank-R.out and DIR/rank-R.err instead");
  text("--hosts", flags->hosts, "A:4,B:4",
       "Start ranks over ssh (TUTTI_SSH: another remote shell), filling hosts in order");
  command->add_option("--env", flags->env, "Set a variable for the ranks (may be repeated)")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  text("--master-addr", flags->master_addr, "ADDR", "MASTER_ADDR (default: 127.0.0.1, or the first host)");
  text("--master-port", flags->master_port, "PORT", "MASTER_PORT (default: a free one)");
  text("PROGRAM", flags->program, "PROGRAM", "Looked up in PATH; what follows it is passed on unchanged");
  command->prefix_command();
  command->footer(
      "Ranks get torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR,\n"
      "MASTER_PORT) and TUTTI_RENDEZVOUS and TUTTI_SECRET. Standard input goes to rank 0; over ssh to none.\n"
      "The exit status is 0, or that of the first rank to fail (128 + number for a signal), 124 on timeout, 127 or "
      "126\n"
      "when the program cannot be executed. A second SIGINT kills.");
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace tutti::tools

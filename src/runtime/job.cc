// Which of the launchers found counts, and where its ranks meet.
#include "src/runtime/job.h"

#include <unistd.h>

#include <algorithm>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/runtime/job_launchers.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/wire.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

[[noreturn]] void reject(const std::string& text) { throw Error(ErrorCode::invalid_argument, text); }

void read_secret(const Environment& environment, const Launch& launch, MeetingPoint& meeting) {
  const auto text = environment("TUTTI_SECRET");
  if (!text) {
    // As strong as the launcher's job id is hard to guess; docs/launchers.md says so.
    meeting.secret = secret_from_text("tutti " + launch.source + " " + launch.id + " " + std::to_string(::getuid()));
    return;
  }
  const bool valid = text->size() == 2 * meeting.secret.size() &&
                     std::all_of(text->begin(), text->end(), [](char c) { return hex_digit(c) >= 0; });
  if (!valid)
    reject(
        "TUTTI_SECRET has " + std::to_string(text->size()) +
        " characters (not shown: it is secret); valid: 64 hexadecimal digits, such as `openssl rand -hex 32` prints");
  for (std::size_t i = 0; i < meeting.secret.size(); ++i)
    meeting.secret[i] = static_cast<std::byte>(hex_digit((*text)[2 * i]) * 16 + hex_digit((*text)[2 * i + 1]));
}

std::uint16_t read_port(const Environment& environment) {
  const auto port = environment("MASTER_PORT");
  if (!port) reject("MASTER_ADDR is set but MASTER_PORT is not: set it to a free port of that host, 1 to 65535");
  return static_cast<std::uint16_t>(base::parse_integer("MASTER_PORT", *port, 1, 65535));
}

// In order: TUTTI_RENDEZVOUS, MASTER_ADDR, what the launcher says, a name within the host.
void read_meeting(const Environment& environment, const Launch& launch, Job& job) {
  MeetingPoint& meeting = job.meeting;
  meeting.name = launch.source + " " + launch.id;
  meeting.serve = job.rank == 0;
  read_secret(environment, launch, meeting);
  if (const auto text = environment("TUTTI_RENDEZVOUS")) {
    const auto [host, port] = parse_address("TUTTI_RENDEZVOUS", *text);
    meeting.hosts = {host};
    meeting.port = port;
    return;
  }
  if (const auto host = environment("MASTER_ADDR")) {
    meeting.hosts = {*host};
    meeting.port = read_port(environment);
    if (launch.store) {  // the port is torchrun's: meet through its store
      meeting.torch_store_port = meeting.port;
      meeting.serve = false;
    }
    return;
  }
  if (launch.rank_variable == "RANK")
    reject("RANK is '" + std::to_string(launch.rank) + "' and WORLD_SIZE is '" + std::to_string(launch.size) +
           "' but MASTER_ADDR is not set: set MASTER_ADDR and MASTER_PORT (torchrun and `tutti run` do), or "
           "TUTTI_RENDEZVOUS=host:port");
  if (launch.host) {
    meeting.hosts = {*launch.host};
    meeting.port = launch.port;
    return;
  }
  if (launch.local_size != launch.size || launch.id.empty())
    reject(launch.rank_variable + " is '" + std::to_string(launch.rank) + "' of " + std::to_string(launch.size) +
           " ranks, " +
           (!launch.local_size ? "and " + launch.source + " does not say whether they share this host"
            : *launch.local_size != launch.size
                ? std::to_string(*launch.local_size) + " of them on this host, and " + launch.source +
                      " does not say where they meet"
                : "all on this host, but " + launch.source + " does not give the job a name") +
           ": set TUTTI_RENDEZVOUS=host:port to the host of rank 0 and a free port there");
}

// An outer launcher below the one that counts is common (torchrun within srun). Two that number the same ranks
// differently are not.
void check_agreement(const std::vector<Launch>& found) {
  const Launch& first = found.front();
  for (std::size_t i = 1; i < found.size(); ++i) {
    const Launch& other = found[i];
    if (other.rank == first.rank && other.size == first.size) continue;
    if (first.rank_variable == "RANK" && !first.elastic && other.size == first.size &&
        other.rank_variable != "SLURM_PROCID")
      reject("two launchers disagree about this rank: " + first.text() + " and " + other.text() +
             "; unset the variables of the one that does not count, or set TUTTI_RANK and TUTTI_SIZE");
    base::log(base::LogLevel::info, first.text() + " counts; ignoring " + other.text());
  }
}

}  // namespace

Job job_from_environment(const Environment& environment) {
  Job job;
  const std::vector<Launch> found = launches(environment);
  if (found.empty()) {
    job.source = "alone";
    return job;
  }
  check_agreement(found);
  const Launch& launch = found.front();
  job.rank = launch.rank;
  job.size = launch.size;
  job.local_rank = launch.local_rank;
  job.local_size = launch.local_size;
  job.source = launch.source;
  if (job.size > 1) read_meeting(environment, launch, job);
  return job;
}

}  // namespace tutti::runtime

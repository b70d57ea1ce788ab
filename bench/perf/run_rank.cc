#include "bench/perf/run_rank.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <sstream>

#include "bench/perf/sweep.h"
#include "tutti/error.h"

namespace tutti::perf {
namespace {

// Whole lines, so that the ranks' messages do not mix.
void say(std::ostream& err, const std::string& program, int rank, const std::string& what) {
  err << program + ": rank " + std::to_string(rank) + ": Error: " + what + "\n" << std::flush;
}

// Only rank 0 writes the report, but all ranks stop when it cannot.
std::unique_ptr<JsonReport> open_report(Peer& peer, const Options& options, const std::vector<std::string>& arguments) {
  std::unique_ptr<JsonReport> report;
  std::string failure;
  try {
    report = std::make_unique<JsonReport>(peer.rank() == 0 ? options.json_path : "", arguments);
  } catch (const Error& error) {
    failure = error.what();
  }
  const double failed = report ? 0 : 1;
  std::vector<double> all(static_cast<std::size_t>(peer.size()));
  peer.gather(&failed, 1, all.data());
  if (all.front() != 0) throw Error(ErrorCode::invalid_argument, failure.empty() ? "rank 0 cannot write -J" : failure);
  return report;
}

std::string program_name(const std::vector<std::string>& arguments) {
  const std::string path = arguments.empty() ? "perf" : arguments.front();
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

int measure_and_report(Peer& peer, const CollectiveUnderTest& collective, const Options& options,
                       const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  const std::string program = program_name(arguments);
  std::unique_ptr<JsonReport> json;
  try {
    check_job(peer, collective, options);
    json = open_report(peer, options, arguments);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    if (peer.rank() == 0) err << program + ": " + error.what() + "\n" << std::flush;
    return kUsageError;
  }
  std::string complaint;
  Totals totals;
  try {
    totals = sweep(peer, collective, options, *json, program, out, complaint);
  } catch (const std::exception& error) {
    json->finish(totals, {error.what()});
    throw;
  }
  if (!complaint.empty()) say(err, program, peer.rank(), complaint);
  json->finish(totals, complaint.empty() ? std::vector<std::string>{} : std::vector<std::string>{complaint});
  return totals.good() ? kGood : kFailed;
}

}  // namespace

int run_rank(Peer& peer, const CollectiveUnderTest& collective, const Options& options,
             const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  try {
    return measure_and_report(peer, collective, options, arguments, out, err);
  } catch (const std::exception& error) {
    say(err, program_name(arguments), peer.rank(), error.what());
    try {
      peer.abort(error.what());  // the other ranks end with this message instead of at their deadline
    } catch (const std::exception&) {
      // This rank has already said what went wrong; its peers find out by its exit.
    }
    return kFailed;
  }
}

}  // namespace tutti::perf

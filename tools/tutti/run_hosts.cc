#include "tools/tutti/run_hosts.h"

#include <unistd.h>

#include <sstream>

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

[[noreturn]] void reject(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              "--hosts is '" + text + "': " + why + "; valid: HOST[:RANKS][,HOST[:RANKS]...], as in a:4,b:4");
}

HostSlots parse_host(const std::string& whole, const std::string& entry) {
  const std::size_t bracket = entry.rfind(']');
  const std::size_t colon = entry.rfind(':');
  const bool has_slots = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  HostSlots host{has_slots ? entry.substr(0, colon) : entry, 1};
  if (has_slots)
    host.slots = static_cast<int>(base::parse_integer("the number of ranks on host '" + host.host + "' in --hosts",
                                                      entry.substr(colon + 1), 1, 4096));
  if (address_of(host.host).empty()) reject(whole, "a host's name is empty");
  if (host.host.front() == '-') reject(whole, "'" + host.host + "' would be read as a flag of ssh");
  return host;
}

// Reads "$1" directory, "$2" seconds of grace, "$3" ranks of this host, then what env(1) takes: settings, program,
// arguments. On one line: some login shells do not take line ends in quotes.
constexpr const char* kRemoteScript =
    "IFS= read -r TUTTI_SECRET || exit 255; export TUTTI_SECRET; "
    "cd -- \"$1\" || exit 126; grace=$2; t=$(( $(nproc 2>/dev/null || echo 1) / $3 )); [ \"$t\" -ge 1 ] || t=1; "
    ": \"${OMP_NUM_THREADS:=$t}\" \"${OPENBLAS_NUM_THREADS:=$t}\"; export OMP_NUM_THREADS OPENBLAS_NUM_THREADS; "
    "shift 3; exec 3<&0; "
    "setsid env -- \"$@\" </dev/null 3<&- & p=$!; "
    "{ while IFS= read -r s; do kill -s \"$s\" -- \"-$p\"; done; "
    "kill -s TERM -- \"-$p\"; sleep \"$grace\"; kill -s KILL -- \"-$p\"; } <&3 >/dev/null 2>&1 & w=$!; "
    "exec 3<&-; wait \"$p\"; s=$?; kill \"$w\" 2>/dev/null; exit \"$s\"";

}  // namespace

std::string address_of(const std::string& host) {
  std::string address = host.substr(host.rfind('@') + 1);  // npos + 1 is 0
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  return address;
}

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    if (entry.empty()) reject(text, "an entry is empty");
    hosts.push_back(parse_host(text, entry));
    for (std::size_t i = 0; i + 1 < hosts.size(); ++i)
      if (hosts[i].host == hosts.back().host) reject(text, "host '" + hosts.back().host + "' is named twice");
  }
  if (hosts.empty() || text.back() == ',') reject(text, "an entry is empty");
  return hosts;
}

std::string quote(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

RankCommand remote_command(const RemoteRank& rank, const std::string& remote_shell, const std::string& directory) {
  std::ostringstream line;
  line << "sh -c " << quote(kRemoteScript) << " tutti-rank " << quote(directory) << " " << rank.grace_seconds << " "
       << rank.local_ranks;
  for (const std::string& setting : rank.settings) line << " " << quote(setting);
  for (const std::string& word : rank.program) line << " " << quote(word);
  RankCommand command;
  command.rank = rank.rank;
  command.host = rank.host;
  std::istringstream words(remote_shell);
  for (std::string word; words >> word;) command.argv.push_back(word);
  const std::string user = rank.host.substr(0, rank.host.rfind('@') + 1);
  command.argv.push_back(user + address_of(rank.host));
  command.argv.push_back(line.str());
  for (char** setting = environ; *setting != nullptr; ++setting) command.environment.emplace_back(*setting);
  return command;
}

}  // namespace tutti::tools

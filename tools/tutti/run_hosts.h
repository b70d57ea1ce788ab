// Ranks on other hosts: what is given to ssh so that one rank runs there.
//
// One connection per rank. The remote shell starts the program in a session of its own, in the launcher's directory,
// and then reads its standard input: first the job's secret (so that it is in no command line), then the names of
// signals to pass on. When that input ends, because the launcher or the connection died, it ends the program. What ssh
// cannot carry: the program's standard input is empty, and "killed by signal 9" comes back as exit status 137.
#pragma once

#include <string>
#include <vector>

#include "tools/tutti/run_process.h"

namespace tutti::tools {

struct HostSlots {
  std::string host;  // as ssh takes it: a name, an address (IPv6 in brackets), user@name
  int slots = 1;
};

// "a:4,user@b:4,[fe80::1]:2,c"; without a number one slot. Throws Error(invalid_argument).
std::vector<HostSlots> parse_hosts(const std::string& text);

// Without the user and the brackets: what other ranks connect to.
std::string address_of(const std::string& host);

// One word for any POSIX-like shell, whatever it holds.
std::string quote(const std::string& word);

struct RemoteRank {
  int rank = 0;
  std::string host;
  int local_ranks = 1;
  std::vector<std::string> settings;  // "NAME=value", without the secret
  std::vector<std::string> program;
  double grace_seconds = 5;
};

// `remote_shell` is TUTTI_SSH or its default: words separated by blanks, the host and the command line come after.
RankCommand remote_command(const RemoteRank& rank, const std::string& remote_shell, const std::string& directory);

}  // namespace tutti::tools

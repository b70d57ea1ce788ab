#include "src/nccl/environment.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "src/base/env.h"
#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

using base::env;

// Known variables that choose one of some words; what they choose has no equivalent here unless used below.
const std::map<std::string, std::vector<std::string>>& choices() {
  static const std::map<std::string, std::vector<std::string>> all{
      {"NCCL_COMM_BLOCKING", {"0", "1"}},
      {"NCCL_DEBUG", {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"}},
      {"NCCL_IB_DISABLE", {"0", "1"}},
      {"NCCL_NET", {"Socket"}},
      {"NCCL_P2P_DISABLE", {"0", "1"}},
      {"NCCL_SHM_DISABLE", {"0", "1"}},
      {"NCCL_SOCKET_FAMILY", {"AF_INET", "AF_INET6"}},
  };
  return all;
}

// "^ll128,simple" -> {"ll128", "simple"}. Lists for single functions ("ring;allreduce:tree") are refused.
std::vector<std::string> names_in(const char* variable, const std::string& text,
                                  const std::vector<std::string>& valid) {
  std::string list = text;
  if (list.find_first_of(";:") != std::string::npos)
    refuse_argument(std::string(variable) + " is '" + text +
                    "'; lists for single functions have no equivalent here; valid: one list for all of them");
  if (list.starts_with('^')) list.erase(0, 1);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(" \t"));
    name.erase(name.find_last_not_of(" \t") + 1);
    names.push_back(base::parse_choice(variable, name, valid));
    begin = end + 1;
  }
  return names;
}

// NCCL's Ring and Tree exist here too, with the same names, and so does "^". Of its others, those excluded need no
// excluding; one that is asked for is refused.
std::string algorithms() {
  const auto text = env("NCCL_ALGO");
  if (!text) return {};
  const bool exclude = text->starts_with('^');
  std::vector<std::string> valid{"ring", "tree"};
  if (exclude) valid.insert(valid.end(), {"collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"});
  std::string list;
  for (const std::string& name : names_in("NCCL_ALGO", *text, valid))
    if (name == "ring" || name == "tree") list += (list.empty() ? "" : ",") + name;
  return list.empty() ? "" : (exclude ? "^" : "") + list;
}

const char* log_level(const std::string& debug) {
  if (debug == "NONE") return "error";
  if (debug == "INFO") return "info";
  return debug == "TRACE" ? "debug" : "warn";
}

// Like NCCL's own configuration file, this is done by setting variables: they are read in many places, and programs
// started from here should find them too.
void hand_on() {
  if (const auto debug = env("NCCL_DEBUG"))
    ::setenv("TUTTI_LOG", log_level(base::parse_choice("NCCL_DEBUG", *debug, choices().at("NCCL_DEBUG"))), 0);
  if (const auto interfaces = env("NCCL_SOCKET_IFNAME")) ::setenv("TUTTI_SOCKET_IFNAME", interfaces->c_str(), 0);
}

}  // namespace

void check_environment() {
  for (const auto& [variable, valid] : choices())
    if (const auto text = env(variable.c_str())) base::parse_choice(variable, *text, valid);
  if (const auto protocols = env("NCCL_PROTO")) names_in("NCCL_PROTO", *protocols, {"ll", "ll128", "simple"});
  algorithms();
  if (const auto address = env("NCCL_COMM_ID"))
    refuse_argument("NCCL_COMM_ID is '" + address->substr(0, 100) +
                    "', but ranks do not meet at a fixed address here: unset it and hand the bytes of one "
                    "ncclGetUniqueId to all ranks");
  static const bool handed_on = (hand_on(), true);
  static_cast<void>(handed_on);
}

void apply_environment(Config& config) {
  if (config.algorithm.empty()) config.algorithm = algorithms();
  if (config.transport.empty() && env("NCCL_SHM_DISABLE") == "1") config.transport = "tcp";
}

std::optional<bool> blocking_from_environment() {
  const auto text = env("NCCL_COMM_BLOCKING");
  if (!text) return std::nullopt;
  return base::parse_choice("NCCL_COMM_BLOCKING", *text, choices().at("NCCL_COMM_BLOCKING")) == "1";
}

const std::vector<std::string>& known_variables() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"NCCL_ALGO", "NCCL_COMM_ID"};
    for (const auto& [variable, valid] : choices()) all.push_back(variable);
    all.insert(all.end(), {"NCCL_PROTO", "NCCL_SOCKET_IFNAME"});
    std::sort(all.begin(), all.end());
    return all;
  }();
  return names;
}

}  // namespace tutti::nccl

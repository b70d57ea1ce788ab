// The `tutti` command: hands over to one subcommand and turns its errors into messages and exit statuses.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "tools/tutti/commands.h"
#include "tutti/error.h"

namespace {

constexpr int kFailed = 1;      // the command could not do its work
constexpr int kUsageError = 2;  // the command line is wrong; nothing was done

using AddCommand = void (*)(CLI::App&);

// clang-format off
constexpr AddCommand kCommands[] = {
    tutti::tools::add_compare,
    tutti::tools::add_explain,
    tutti::tools::add_plan,
    tutti::tools::add_run,
    tutti::tools::add_simulate,
    tutti::tools::add_topo,
    tutti::tools::add_train,
    tutti::tools::add_tune,
};
// clang-format on

// The chosen subcommand, or the app itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : chosen(*commands.front());
}

// "tutti run"
std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string valid_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return join(names);
}

std::string valid_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) names.push_back(option->get_name(false, true));
  return join(names);
}

// What was not understood, and what would have been.
std::string unknown_argument(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining(true);
  const std::string argument = rest.empty() ? "" : rest.front();
  if (!argument.empty() && argument.front() == '-')
    return "unknown flag '" + argument + "'; valid: " + valid_flags(command);
  if (command.get_parent() == nullptr) return "unknown command '" + argument + "'; valid: " + valid_commands(command);
  return "unexpected argument '" + argument + "'; valid flags: " + valid_flags(command);
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);  // help, version
  if (dynamic_cast<const CLI::RuntimeError*>(&error) != nullptr) return error.get_exit_code();
  const CLI::App& command = chosen(app);
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  std::cerr << path_of(command) << ": " << (unknown ? unknown_argument(command) : error.what()) << "\n"
            << "Try '" << path_of(command) << " --help'.\n";
  return kUsageError;
}

// What was printed must have arrived: a full disk or a closed reader is a failure, not a success.
int finish_output(const std::string& command) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  std::cerr << command << ": cannot write to standard output: " << std::strerror(errno) << " (errno " << errno << ")\n";
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Collective communication for CPU and CUDA memory", "tutti"};
  app.set_version_flag("--version", "tutti " TUTTI_VERSION);
  app.require_subcommand(0, 1);
  for (const AddCommand add : kCommands) add(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) std::cout << app.help();
    return finish_output(path_of(chosen(app)));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  } catch (const std::exception& error) {
    std::cerr << path_of(chosen(app)) << ": " << error.what() << "\n";
    return kFailed;
  }
}

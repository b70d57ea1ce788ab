// The subcommands of `tutti`. To add one: a file of its own that defines add_<name>, a line here, a line in main.cc's
// list, a line in tools/CMakeLists.txt.
//
// add_<name> calls app.add_subcommand("<name>", "what it does") and sets its flags and its callback. In the callback:
//   - throw tutti::Error:           main prints "tutti <name>: <message>" on standard error, exit status 1;
//   - throw CLI::ValidationError:   a value that a flag does not take, exit status 2 (CLI11's own checks end so too);
//   - throw CLI::RuntimeError(s):   prints nothing, exit status s (for a command that has said what there is to say).
// Variables that flags write to must outlive add_<name>: keep them in a std::shared_ptr that the callback captures.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::tools {

void add_compare(CLI::App& app);
void add_explain(CLI::App& app);
void add_plan(CLI::App& app);
void add_run(CLI::App& app);
void add_simulate(CLI::App& app);
void add_topo(CLI::App& app);
void add_train(CLI::App& app);
void add_tune(CLI::App& app);

}  // namespace tutti::tools

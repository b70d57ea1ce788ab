// tutti topo: what hardware is here.
#include "tools/tutti/commands.h"

namespace tutti::tools {

void add_topo(CLI::App& app) { app.add_subcommand("topo", "Print the hardware of this machine as Tutti sees it"); }

}  // namespace tutti::tools

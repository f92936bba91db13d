#pragma once

namespace flywheel {

// The subcommands of `analyze`, each in a file of its own. argv[0] is the subcommand's name.
int analyze_coverage(int argc, char** argv);
int analyze_gates(int argc, char** argv);
int analyze_graph(int argc, char** argv);
int analyze_mixing(int argc, char** argv);
int analyze_positions(int argc, char** argv);

}  // namespace flywheel

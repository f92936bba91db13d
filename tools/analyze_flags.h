#pragma once

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "analysis/attention_stack.h"
#include "plot/chart.h"

namespace flywheel {

// Flags that the subcommands of `analyze` share.

// --patterns, --config, --layers, --window, --band, --budget, --clipped.
void add_stack_flags(cxxopts::Options& options, const std::string& default_patterns);
// The stacks that they name: one a pattern, or that of a config. Error Config.
std::vector<AttentionStack> stack_flags(const cxxopts::ParseResult& args);
// The options around their patterns.
AttentionConfig attention_section(const cxxopts::ParseResult& args);
// Says which of the stacks are plain full attention, because their window is as long as the text.
void note_full_windows(const std::vector<AttentionStack>& stacks, std::int64_t n);

// --csv, --json, --figure: where results go beside the table.
void add_output_flags(cxxopts::Options& options);
struct OutputFiles {
  std::string csv, json, figure;
  // Error unless the folders are there and, for a figure, gnuplot: before the work, not after it.
  void prepare() const;
};
OutputFiles output_flags(const cxxopts::ParseResult& args);
void write_outputs(const OutputFiles& files, const std::string& csv, const std::string& json,
                   const Chart& chart);

// An integer flag of at least `least`. Error Config.
std::int64_t count_flag(const cxxopts::ParseResult& args, const std::string& name,
                        std::int64_t least);

// Options with --help, and what runs them.
cxxopts::Options subcommand_options(const std::string& name, const std::string& description);
int run_subcommand(cxxopts::Options options, int argc, char** argv,
                   int (*run)(const cxxopts::ParseResult&));

}  // namespace flywheel

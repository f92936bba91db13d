#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace flywheel::test {

// What became of one rank: what its body returned, or the text of what it threw.
struct RankOutcome {
  std::string text;
  bool failed = false;
};

// Runs body(rank) in a process of its own for each rank, which is told its place by the variables
// that torchrun sets; temporary files of theirs go away. A process that dies has "" as its text.
std::vector<RankOutcome> run_forked_ranks(std::int64_t ranks,
                                          const std::function<std::string(std::int64_t)>& body);

// A port of this machine that nobody listens at.
int free_port();

}  // namespace flywheel::test

#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace flywheel::bench {

struct AttentionSetting {
  std::vector<std::int64_t> lengths;
  std::int64_t tokens = 0;  // of all sequences, at least one sequence
  std::int64_t heads = 0, head_size = 0, window = 0;
  double budget_seconds = 0;  // of a measurement
};

struct AttentionFigures {
  std::string pattern;
  std::int64_t length = 0, tokens = 0;
  double visible_keys = 0;  // a query
  double forward_seconds = 0, backward_seconds = 0;
  double forward_tflops = 0, backward_tflops = 0;  // 4 D and 10 D operations a visible pair
  double speed_up = 0;  // over full attention of that length, both passes
};

// Times attention in bf16 of full, swa and sa, and prints a line each.
std::vector<AttentionFigures> time_attention(Backend& backend, const AttentionSetting& setting);

}  // namespace flywheel::bench

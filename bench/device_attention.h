#pragma once

#include <nlohmann/json.hpp>

#include "backend/backend.h"

namespace flywheel::bench {

struct AttentionSetting {
  std::vector<std::int64_t> lengths;
  std::int64_t tokens = 0;  // of all sequences, at least one sequence
  std::int64_t heads = 0, head_size = 0, window = 0;
  double budget_seconds = 0;  // of a measurement
};

// Times attention in bf16 of full, swa and sa, prints a line each, and returns the figures.
nlohmann::json time_attention(Backend& backend, const AttentionSetting& setting);

}  // namespace flywheel::bench

#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace flywheel {

// cos and sin of every position's angles, [max_positions, D/2] each. Frequencies and angles are
// rounded to float32 where transformers rounds them, so that long positions turn alike
// (docs/numerics.md).
struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
};
RopeTable make_rope_table(const ModelConfig& config);

// The frequency of pair m = 0..D/2-1 in radians a position, after scaling. Su et al. 2021; "llama3"
// as Llama 3.1 defines it: long wavelengths are divided by the factor, short ones kept, blended
// between.
std::vector<float> rope_frequencies(const ModelConfig& config);

}  // namespace flywheel

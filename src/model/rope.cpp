#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace flywheel {
namespace {

float llama3_frequency(float frequency, const RopeScalingConfig& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  const double slowed = static_cast<double>(frequency) / scaling.factor;
  if (wavelength > original / scaling.low_freq_factor) return static_cast<float>(slowed);
  const double share = (original / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return static_cast<float>((1 - share) * slowed + share * static_cast<double>(frequency));
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
  const std::int64_t half = config.head_dim / 2;
  const RopeScalingConfig& scaling = config.rope_scaling;
  std::vector<float> frequencies;
  for (std::int64_t m = 0; m < half; ++m) {
    const float exponent = static_cast<float>(2 * m) / static_cast<float>(config.head_dim);
    float frequency = 1.0F / std::pow(static_cast<float>(config.rope_theta), exponent);
    if (scaling.kind == RopeScalingKind::Linear) frequency /= static_cast<float>(scaling.factor);
    if (scaling.kind == RopeScalingKind::Llama3) frequency = llama3_frequency(frequency, scaling);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable make_rope_table(const ModelConfig& config) {
  const std::vector<float> frequencies = rope_frequencies(config);
  RopeTable table;
  table.cos.reserve(frequencies.size() * static_cast<std::size_t>(config.max_positions));
  table.sin.reserve(table.cos.capacity());
  for (std::int64_t position = 0; position < config.max_positions; ++position) {
    for (const float frequency : frequencies) {
      const double angle = static_cast<double>(static_cast<float>(position) * frequency);
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

}  // namespace flywheel

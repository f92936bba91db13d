#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "support/model_twin.h"

namespace flywheel::test {

struct ModelCase {
  std::string name;
  ModelConfig config;
  std::vector<std::int32_t> lengths;
  double z_loss = 0;
  std::int64_t loss_chunk = 0;
};

// Small models: every option, and the pairs of options that interact.
std::vector<ModelCase> model_cases();
ModelConfig tiny_model();

// Limits that fit the case, for training.
TransformerLimits limits_of(const ModelCase& c, RecomputePolicy recompute = RecomputePolicy::None);
TwinInput input_of(const ModelCase& c, std::uint64_t seed = 1);

// Values far from the special ones that initialization gives (norms of 1, biases and gates of 0).
void fill_parameters(Transformer& model, Backend& backend, std::uint64_t seed);

std::vector<float> download(Backend& backend, const TensorView& tensor);
NamedValues<float> values_of(const Transformer& model, Backend& backend);
NamedValues<float> gradients_of(const Transformer& model, Backend& backend);

template <class To, class From>
NamedValues<To> converted(const NamedValues<From>& values) {
  NamedValues<To> result;
  for (const auto& [name, numbers] : values) result[name].assign(numbers.begin(), numbers.end());
  return result;
}

}  // namespace flywheel::test

#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "core/safetensors.h"
#include "cpu/cpu_backend.h"
#include "infer/load_model.h"
#include "model/sequence_packer.h"
#include "support/catch.h"

namespace flywheel::test {

inline std::vector<float> floats_of(const SafetensorsReader& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  std::vector<float> values(static_cast<std::size_t>(entry->elements()));
  file.read_floats(*entry, 0, values);
  return values;
}

// Logits of every token of one sequence, [T, V].
inline std::vector<float> logits_of(const OpenedModel& opened,
                                    std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const auto backend = make_cpu_backend(2);
  const auto model =
      load_transformer(opened.weights, opened.config, *backend,
                       {.max_tokens = length, .max_sequences = 1, .training = false});
  SequencePacker packer;
  packer.add(tokens, std::vector<std::int32_t>(tokens.size(), -1));
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < length; ++row) rows.push_back(row);
  std::vector<float> logits(static_cast<std::size_t>(length * opened.config.vocab_size));
  model->logits(packer.view(), {}, rows, logits);
  return logits;
}

// The model against a file of tests/oracle/import_golden.py: its error is at most twice PyTorch's
// in float32, plus rounding of both results.
inline void require_golden_logits(const OpenedModel& opened, const std::filesystem::path& path) {
  const SafetensorsReader file(path);
  const SafetensorsEntry* entry = file.find("tokens");
  REQUIRE(entry != nullptr);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(entry->elements()));
  std::memcpy(tokens.data(), entry->bytes.data(), entry->bytes.size());
  const std::vector<float> exact = floats_of(file, "logits");
  const std::vector<float> logits = logits_of(opened, tokens);
  REQUIRE(logits.size() == exact.size());
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += std::pow(double{logits[i]} - double{exact[i]}, 2);
    size += std::pow(double{exact[i]}, 2);
  }
  const auto count = static_cast<double>(exact.size());
  const double error = std::sqrt(squares / count);
  const double peer_error = double{floats_of(file, "error")[0]};
  const double rounding =
      2 * double{std::numeric_limits<float>::epsilon()} * std::sqrt(size / count);
  INFO(path.string() << ": error " << error << ", PyTorch's in float32 " << peer_error);
  REQUIRE(error <= 2 * peer_error + rounding);
}

}  // namespace flywheel::test

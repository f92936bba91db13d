#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eval/request.h"
#include "model/transformer.h"

namespace flywheel {

// Over the tokens of a text; a gate a channel counts as one more token of its head.
struct GateMoments {
  double mean = 0;
  double deviation = 0;  // standard deviation
};

// The gates of a head of a gated layer (docs/attention.md).
struct HeadGates {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  GateMoments sa;
  GateMoments swa;
};

// Runs an inference model of these limits over the requests' inputs, one after another. Error
// Config if no layer of the model has gates.
std::vector<HeadGates> gate_statistics(
    Transformer& model, std::span<const TokenRequest> requests, std::uint64_t seed,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace flywheel

#include "analysis/gate_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "model/sequence_packer.h"

namespace flywheel {
namespace {

// Welford's running mean and sum of squared deviations.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  void add(double value) {
    count += 1;
    const double difference = value - mean;
    mean += difference / count;
    squares += difference * (value - mean);
  }
  GateMoments result() const { return {mean, std::sqrt(squares / count)}; }
};

using LayerMoments = std::vector<std::array<Moments, 2>>;  // by head: sa, swa

void add_gates(LayerMoments& heads, std::span<const float> logits, std::size_t tokens) {
  const std::size_t gates = logits.size() / tokens / 2;
  const std::size_t channels = gates / heads.size();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t path = i / gates % 2;
    const std::size_t head = i % gates / channels;
    heads[head][path].add(1 / (1 + std::exp(-double{logits[i]})));
  }
}

}  // namespace

std::vector<HeadGates> gate_statistics(
    Transformer& model, std::span<const TokenRequest> requests, std::uint64_t seed,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  const auto layers = resolve_layers(model.config());
  require(std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.gated; }),
          ErrorKind::Config, "no layer of the model is gated: its attention is not sa_swa");
  std::map<std::int64_t, LayerMoments> moments;
  SequencePacker packer;
  std::int64_t done = 0;
  for (const TokenRequest& request : requests) {
    const auto inputs = std::span(request.tokens).first(request.tokens.size() - 1);
    const std::vector<std::int32_t> no_targets(inputs.size(), -1);
    packer.clear();
    packer.add(inputs, no_targets);
    model.visit_gates(packer.view(),
                      {.seed = seed, .stream = RandomStream::kEvaluationPermutation, .draw = 0},
                      [&](std::int64_t layer, std::span<const float> logits) {
                        LayerMoments& heads = moments[layer];
                        heads.resize(static_cast<std::size_t>(model.config().heads));
                        add_gates(heads, logits, inputs.size());
                      });
    if (progress) progress(++done, std::ssize(requests));
  }
  std::vector<HeadGates> result;
  for (const auto& [layer, heads] : moments) {
    for (std::size_t head = 0; head < heads.size(); ++head) {
      result.push_back({.layer = layer,
                        .head = static_cast<std::int64_t>(head),
                        .sa = heads[head][0].result(),
                        .swa = heads[head][1].result()});
    }
  }
  return result;
}

}  // namespace flywheel

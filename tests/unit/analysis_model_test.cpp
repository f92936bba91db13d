#include <algorithm>
#include <cmath>

#include "analysis/gate_statistics.h"
#include "analysis/position_loss.h"
#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

ModelConfig gated_model(GateKind gate) {
  ModelConfig config = tiny_model();
  config.attention.pattern.clear();
  for (const char* name : {"swa", "sa_swa"}) {
    config.attention.pattern.emplace_back().set_short_form(name);
  }
  config.attention.window = 4;
  config.attention.gate = gate;
  return config;
}

std::vector<TokenRequest> texts() {
  return {{.tokens = {1, 2, 3, 4, 5, 6}}, {.tokens = {7, 8, 9}}};
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Gates that are their biases: value(path, gate) of a layer.
template <class F>
void set_gates(const Transformer& model, Backend& backend, const F& value) {
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.find(".gate_s") == std::string::npos) continue;
    std::vector<float> values(static_cast<std::size_t>(parameter.value.elements()), 0);
    if (parameter.name.find("bias") != std::string::npos) {
      const int path = parameter.name.find("gate_sa.") != std::string::npos ? 0 : 1;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(path, i);
    }
    backend.upload(parameter.value, values.data());
  }
}

}  // namespace

TEST_CASE("losses are averaged by the length of their context") {
  std::vector<TokenRequest> requests{{.tokens = std::vector<std::int32_t>(40)},
                                     {.tokens = std::vector<std::int32_t>(20), .first_scored = 17}};
  std::vector<std::vector<TokenScore>> scores(2);
  for (int context = 1; context < 40; ++context) scores[0].push_back({.loss = float(context)});
  for (int i = 0; i < 3; ++i) scores[1].push_back({.loss = 100});
  const auto bins = loss_by_position(requests, scores);
  REQUIRE(bins.size() == 3);
  REQUIRE((bins[0].first == 1 && bins[0].last == 16 && bins[0].tokens == 16));
  REQUIRE(bins[0].loss == Approx(8.5));
  REQUIRE((bins[1].first == 17 && bins[1].last == 32 && bins[1].tokens == 19));
  REQUIRE(bins[1].loss == Approx((16 * 24.5 + 300) / 19));
  REQUIRE((bins[2].first == 33 && bins[2].last == 64 && bins[2].tokens == 7));
  REQUIRE(bins[2].loss == Approx(36));
}

TEST_CASE("contexts that did not occur have no place among the positions") {
  const std::vector<TokenRequest> requests{
      {.tokens = std::vector<std::int32_t>(130), .first_scored = 129}};
  const auto bins = loss_by_position(requests, std::vector<std::vector<TokenScore>>{{{.loss = 2}}});
  REQUIRE(bins.size() == 1);
  REQUIRE((bins[0].first == 129 && bins[0].last == 256 && bins[0].tokens == 1));
}

TEST_CASE("gates are averaged by layer and head") {
  const auto backend = make_cpu_backend(1);
  Transformer model(gated_model(GateKind::Head), *backend,
                    {.max_tokens = 8, .max_sequences = 1, .training = false});
  fill_parameters(model, *backend, 3);
  set_gates(model, *backend,
            [](int path, std::size_t head) { return float(head) * (path == 0 ? 1.0F : -2.0F); });
  const auto gates = gate_statistics(model, texts(), 1);
  REQUIRE(gates.size() == 4);
  for (std::size_t head = 0; head < 4; ++head) {
    REQUIRE(gates[head].layer == 1);
    REQUIRE(gates[head].head == static_cast<std::int64_t>(head));
    REQUIRE(gates[head].sa.mean == Approx(sigmoid(double(head))));
    REQUIRE(gates[head].swa.mean == Approx(sigmoid(-2 * double(head))));
    REQUIRE(gates[head].sa.deviation == Approx(0).margin(1e-9));
  }
}

TEST_CASE("gates of a channel each are averaged over the head") {
  const auto backend = make_cpu_backend(1);
  Transformer model(gated_model(GateKind::Channel), *backend,
                    {.max_tokens = 8, .max_sequences = 1, .training = false});
  fill_parameters(model, *backend, 3);
  set_gates(model, *backend, [](int path, std::size_t i) {
    if (path == 0) return float(i / 8);  // 8 channels a head
    return i % 2 == 0 ? 1.0F : -1.0F;
  });
  const auto gates = gate_statistics(model, texts(), 1);
  REQUIRE(gates.size() == 4);
  for (std::size_t head = 0; head < 4; ++head) {
    REQUIRE(gates[head].sa.mean == Approx(sigmoid(double(head))));
    REQUIRE(gates[head].swa.mean == Approx(0.5));
    REQUIRE(gates[head].swa.deviation == Approx(sigmoid(1) - 0.5));
  }
}

TEST_CASE("a model without gates has none to look into") {
  const auto backend = make_cpu_backend(1);
  Transformer model(tiny_model(), *backend,
                    {.max_tokens = 8, .max_sequences = 1, .training = false});
  REQUIRE(contains(error_of([&] { gate_statistics(model, texts(), 1); }),
                   "no layer of the model is gated"));
}

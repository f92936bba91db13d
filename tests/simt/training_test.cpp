// Whole training runs on the emulated GPU against the same runs on the CPU.
#include <bit>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/model_cases.h"
#include "train/optimizer.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr int kSteps = 20;

ModelCase model_case(const std::string& pattern) {
  ModelCase c{pattern, tiny_model(), {70, 29}};
  c.config.max_positions = 80;
  c.config.heads = 2;
  c.config.kv_heads = 1;
  c.config.attention.window = 20;
  c.config.attention.pattern[0].set_short_form(pattern);
  return c;
}

// Every weight moved to the next float.
void nudge_weights(Transformer& model, Backend& backend) {
  for (const Parameter& p : model.parameters()) {
    std::vector<float> values = download(backend, p.value);
    for (float& x : values) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U);
    backend.upload(p.value, values.data());
  }
}

// The weights after kSteps of AdamW, each on a batch and with permutations of its own.
NamedValues<float> train(const ModelCase& c, Backend& backend, bool nudged = false) {
  Transformer model(c.config, backend, limits_of(c));
  model.initialize(7);
  if (nudged) nudge_weights(model, backend);
  const OptimizerConfig config;
  Optimizer optimizer(backend, model.parameters(), config);
  for (int step = 1; step <= kSteps; ++step) {
    TwinInput input = input_of(c, static_cast<std::uint64_t>(step));
    input.draw.draw = static_cast<std::uint32_t>(step);
    model.zero_gradients();
    model.forward_backward(input.packed(), input.draw, input.loss_scale);
    optimizer.update(step, config.learning_rate, optimizer.gradient_norm().value);
  }
  return values_of(model, backend);
}

double distance(const NamedValues<float>& a, const NamedValues<float>& b) {
  double sum = 0;
  for (const auto& [name, values] : a) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = double{values[i]} - double{b.at(name)[i]};
      sum += difference * difference;
    }
  }
  return std::sqrt(sum);
}

}  // namespace

// How far rounding drives two runs apart is measured: by a run whose first weights differ in their
// last bit.
TEST_CASE("training on the emulated GPU gives the CPU's weights to rounding", "[simt]") {
  const auto cpu = make_cpu_backend(2);
  const auto gpu = make_cuda_backend(0);
  for (const char* pattern : {"full", "swa", "sa", "sa_swa"}) {
    const ModelCase c = model_case(pattern);
    const NamedValues<float> expected = train(c, *cpu);
    const double rounding = distance(train(c, *cpu, true), expected);
    const double measured = distance(train(c, *gpu), expected);
    CAPTURE(pattern, measured, rounding);
    CHECK(measured <= 2 * rounding);
  }
}

TEST_CASE("training on the emulated GPU gives the same bits under any schedule", "[simt]") {
  const auto gpu = make_cuda_backend(0);
  const ModelCase c = model_case("sa_swa");
  const NamedValues<float> expected = train(c, *gpu);
  const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, 11});
  CHECK(train(c, *gpu) == expected);
}

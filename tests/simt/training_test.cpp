// Whole training runs on the emulated GPU against the same runs on the CPU.
#include <array>
#include <bit>
#include <cmath>

#include "core/float16.h"
#include "core/philox.h"
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "model/parameters.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/model_cases.h"
#include "support/rounding_backend.h"
#include "train/optimizer.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr int kSteps = 20;
constexpr std::uint64_t kSeed = 3;  // of rounding

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

struct Training {
  std::vector<double> losses;
  NamedValues<float> weights;
};

// kSteps of AdamW, each on a batch and with permutations of its own.
class Trial {
 public:
  Trial(const ModelCase& c, Backend& backend, const TransformerLimits& limits)
      : case_(c),
        backend_(backend),
        model_(c.config, backend, limits),
        optimizer_(backend, model_, only_rank_, config_, false, kSeed) {
    model_.initialize(7);
  }
  Transformer& model() { return model_; }

  void gradients(int step) {
    TwinInput input = input_of(case_, static_cast<std::uint64_t>(step));
    input.draw.draw = static_cast<std::uint32_t>(step);
    model_.zero_gradients();
    losses_.push_back(model_.forward_backward(input.packed(), input.draw, input.loss_scale));
  }
  void update(int step) {
    optimizer_.update(step, config_.learning_rate, optimizer_.step_sums().gradient_norm);
  }
  Training result() { return {losses_, values_of(model_, backend_)}; }

 private:
  const ModelCase& case_;
  Backend& backend_;
  OptimizerConfig config_;
  Transformer model_;
  SingleCommunicator only_rank_;
  Optimizer optimizer_;
  std::vector<double> losses_;
};

Training train(const ModelCase& c, Backend& backend, const TransformerLimits& limits) {
  Trial trial(c, backend, limits);
  for (int step = 1; step <= kSteps; ++step) {
    trial.gradients(step);
    trial.update(step);
  }
  return trial.result();
}

Training train_nudged(const ModelCase& c, Backend& backend) {
  Trial trial(c, backend, limits_of(c));
  nudge_weights(trial.model(), backend);
  for (int step = 1; step <= kSteps; ++step) {
    trial.gradients(step);
    trial.update(step);
  }
  return trial.result();
}

// What RoundWeights makes of a parameter (docs/numerics.md).
std::vector<float> rounded(const std::string& name, const std::vector<float>& weights, int update) {
  const std::uint64_t seed = rounding_seed(kSeed, name);
  std::vector<float> copy;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (update == 0) {
      copy.push_back(bf16_to_float(float_to_bf16(weights[i])));
      continue;
    }
    const auto words =
        philox4x32({static_cast<std::uint32_t>(i / 4), 0, static_cast<std::uint32_t>(update),
                    static_cast<std::uint32_t>(RandomStream::kRounding)},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    const auto bits = std::bit_cast<std::uint32_t>(weights[i]) + (words[i % 4] & 0xffffU);
    copy.push_back(bf16_to_float(static_cast<std::uint16_t>(bits >> 16)));
  }
  return copy;
}

// Training in bf16 as the CPU can do it: it rounds after every op, and lends its weights the
// rounded values for each pass.
Training train_rounded(const ModelCase& c, Backend& cpu) {
  RoundingBackend backend(cpu);
  Trial trial(c, backend, limits_of(c));
  for (int step = 1; step <= kSteps; ++step) {
    const NamedValues<float> weights = values_of(trial.model(), backend);
    for (const Parameter& p : trial.model().parameters()) {
      backend.upload(p.value, rounded(p.name, weights.at(p.name), step - 1).data());
    }
    trial.gradients(step);
    for (const Parameter& p : trial.model().parameters()) {
      backend.upload(p.value, weights.at(p.name).data());
    }
    trial.update(step);
  }
  return trial.result();
}

TransformerLimits in_bf16(const ModelCase& c, RecomputePolicy recompute = RecomputePolicy::None) {
  TransformerLimits limits = limits_of(c, recompute);
  limits.precision = Precision::Bfloat16;
  return limits;
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

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

NamedValues<float> gradients_in_bf16(const ModelCase& c, Backend& gpu, RecomputePolicy policy) {
  Trial trial(c, gpu, in_bf16(c, policy));
  trial.gradients(1);
  return gradients_of(trial.model(), gpu);
}

constexpr std::array kPatterns{"full", "swa", "sa", "sa_swa", "moba"};

}  // namespace

// How far rounding drives two runs apart is measured: by a run whose first weights differ in their
// last bit.
TEST_CASE("training on the emulated GPU gives the CPU's weights to rounding", "[simt]") {
  const auto cpu = make_cpu_backend(2);
  const auto gpu = make_cuda_backend(0);
  for (const char* pattern : kPatterns) {
    const ModelCase c = model_case(pattern);
    const NamedValues<float> expected = train(c, *cpu, limits_of(c)).weights;
    const double rounding = distance(train_nudged(c, *cpu).weights, expected);
    const double measured = distance(train(c, *gpu, limits_of(c)).weights, expected);
    CAPTURE(pattern, measured, rounding);
    CHECK(measured <= 2 * rounding);
  }
}

// How much noise bf16 brings is measured too: by a run on the CPU that rounds after every op. Heads
// of 16 take the plain kernels, those of 64 tensor cores.
TEST_CASE("training in bf16 keeps the losses of float32 to the noise of bf16", "[simt]") {
  const auto cpu = make_cpu_backend(2);
  const auto gpu = make_cuda_backend(0);
  for (const char* pattern : kPatterns) {
    for (const std::int64_t head_dim : {16, 64}) {
      ModelCase c = model_case(pattern);
      c.config.head_dim = head_dim;
      const Training expected = train(c, *cpu, limits_of(c));
      const Training naive = train_rounded(c, *cpu);
      const Training measured = train(c, *gpu, in_bf16(c));
      const double noise = distance(naive.losses, expected.losses);
      const double difference = distance(measured.losses, expected.losses);
      CAPTURE(pattern, head_dim, difference, noise);
      CHECK(difference <= 2 * noise);
      CHECK(difference > 0);
      CHECK(distance(measured.weights, expected.weights) <=
            2 * distance(naive.weights, expected.weights));
    }
  }
}

TEST_CASE("training on the emulated GPU gives the same bits under any schedule", "[simt]") {
  const auto gpu = make_cuda_backend(0);
  const ModelCase c = model_case("sa_swa");
  const NamedValues<float> expected = train(c, *gpu, limits_of(c)).weights;
  const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, 11});
  CHECK(train(c, *gpu, limits_of(c)).weights == expected);
}

TEST_CASE("gradients in bf16 have the same bits under any schedule and policy", "[simt]") {
  const auto gpu = make_cuda_backend(0);
  for (const char* pattern : kPatterns) {
    ModelCase c = model_case(pattern);
    c.config.head_dim = 64;
    CAPTURE(pattern);
    const auto expected = gradients_in_bf16(c, *gpu, RecomputePolicy::None);
    CHECK(gradients_in_bf16(c, *gpu, RecomputePolicy::Mlp) == expected);
    CHECK(gradients_in_bf16(c, *gpu, RecomputePolicy::Layer) == expected);
    for (const Schedule& schedule : unruly_schedules(2)) {
      const ScheduleScope scope(schedule);
      CAPTURE(schedule.name());
      CHECK(gradients_in_bf16(c, *gpu, RecomputePolicy::None) == expected);
    }
  }
}

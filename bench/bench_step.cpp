// Time of whole training steps (forward, backward, norm, AdamW) with a breakdown by op.
//
//   bench_step --model 10m --pattern full --sequence 512 --batch 8 --threads 2

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cxxopts.hpp>
#include <fstream>
#include <vector>

#include "backend/ops.h"
#include "bench/models.h"
#include "bench/probe.h"
#include "bench/timing_backend.h"
#include "cpu/cpu_backend.h"
#include "cpu/peak_flops.h"
#include "model/transformer.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace flywheel::bench {
namespace {

// Random tokens, packed as `batch` sequences.
struct Tokens {
  std::vector<std::int32_t> inputs, targets, positions, cu_seqlens{0};

  Tokens(std::int64_t batch, std::int64_t sequence, std::int64_t vocab_size) {
    const RandomSequence random(1, RandomStream::kSampling);
    for (std::int64_t s = 0; s < batch; ++s) {
      for (std::int64_t i = 0; i < sequence; ++i) {
        const auto index = static_cast<std::uint64_t>(inputs.size());
        const auto bound = static_cast<std::uint64_t>(vocab_size);
        inputs.push_back(static_cast<std::int32_t>(random.below(2 * index, bound)));
        targets.push_back(static_cast<std::int32_t>(random.below(2 * index + 1, bound)));
        positions.push_back(static_cast<std::int32_t>(i));
      }
      cu_seqlens.push_back(static_cast<std::int32_t>(inputs.size()));
    }
  }
  PackedTokens packed() const { return {inputs, targets, positions, cu_seqlens}; }
};

// Both moments of every parameter, and the step that uses them.
class Optimizer {
 public:
  Optimizer(Backend& backend, std::span<const Parameter> parameters)
      : backend_(backend), parameters_(parameters) {
    for (const Parameter& parameter : parameters) {
      moments_.push_back(backend.allocate(2 * parameter.value.bytes(), "moments"));
    }
    scalars_ = backend.allocate(16, "norm and clip");
    ops::fill(backend, {.x = clip(), .value = 1});
  }

  void step() {
    const TensorView norm(scalars_->data(), DType::F64, Shape{1}, backend_.device());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      const std::int64_t n = parameter.value.elements();
      std::byte* moments = moments_[i]->data();
      ops::sum_of_squares(backend_, {.out = norm, .x = parameter.grad.reshaped(Shape{n})});
      ops::adamw_step(backend_,
                      {.param = parameter.value.reshaped(Shape{n}),
                       .m = TensorView(moments, DType::F32, Shape{n}, backend_.device()),
                       .v = TensorView(moments + 4 * n, DType::F32, Shape{n}, backend_.device()),
                       .grad = parameter.grad.reshaped(Shape{n}),
                       .clip = clip(),
                       .step = ++steps_,
                       .learning_rate = 1e-4F,
                       .weight_decay = parameter.decay ? 0.1F : 0});
    }
  }

 private:
  TensorView clip() const {
    return TensorView(scalars_->data() + 8, DType::F32, Shape{1}, backend_.device());
  }

  Backend& backend_;
  std::span<const Parameter> parameters_;
  std::vector<std::unique_ptr<DeviceMemory>> moments_;
  std::unique_ptr<DeviceMemory> scalars_;
  std::int64_t steps_ = 0;
};

int run(const cxxopts::ParseResult& flags) {
  limit_vectors(flags["vectors"].as<std::string>());
  const auto sequence = flags["sequence"].as<std::int64_t>();
  const auto batch = flags["batch"].as<std::int64_t>();
  const auto threads = flags["threads"].as<int>();
  ModelConfig config = model_named(flags["model"].as<std::string>());
  config.attention.pattern.front().pattern = flags["pattern"].as<std::string>();
  config.attention.window = flags["window"].as<std::int64_t>();
  const std::unique_ptr<Backend> backend = make_cpu_backend(threads);
  TimingBackend timed(*backend);
  Transformer model(config, timed, {.max_tokens = batch * sequence, .max_sequences = batch});
  model.initialize(1);
  Optimizer optimizer(timed, model.parameters());
  const Tokens tokens(batch, sequence, config.vocab_size);
  const double count = static_cast<double>(batch * sequence);

  ThreadPool pool(threads);
  double best = 1e30;
  double peak = 0;
  std::map<std::string, double> breakdown;
  for (int repeat = 0; repeat <= flags["repeats"].as<int>(); ++repeat) {
    peak = std::max(peak, sample_peak_flops(pool));
    timed.reset();
    const auto start = std::chrono::steady_clock::now();
    model.zero_gradients();
    model.forward_backward(tokens.packed(), {.seed = 1, .draw = static_cast<std::uint32_t>(repeat)},
                           1 / count);
    optimizer.step();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (repeat == 0 || seconds >= best) continue;  // the first touches the memory
    best = seconds;
    breakdown = timed.seconds();
  }

  const ModelCost cost = Transformer::cost(config, sequence);
  const double rate = count / best;
  const double share = rate * cost.flops_per_token / peak;
  fmt::print(
      "{} {} n={} batch={} threads={}: {:.1f} tokens/s, {:.4f} GFLOP/token, {:.1f} GFLOP/s, {:.3f} "
      "of the "
      "measured peak {:.1f} GFLOP/s\n",
      flags["model"].as<std::string>(), flags["pattern"].as<std::string>(), sequence, batch,
      threads, rate, cost.flops_per_token * 1e-9, rate * cost.flops_per_token * 1e-9, share,
      peak * 1e-9);
  double known = 0;
  for (const auto& [op, seconds] : breakdown) {
    known += seconds;
    fmt::print("  {:24} {:9.2f} ms {:5.1f} %\n", op, 1e3 * seconds, 100 * seconds / best);
  }
  fmt::print("  {:24} {:9.2f} ms {:5.1f} %\n", "outside the ops", 1e3 * (best - known),
             100 * (1 - known / best));
  return 0;
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  cxxopts::Options options("bench_step", "Time of whole training steps with a breakdown by op.");
  options.add_options()("model", "10m, 124m, 135m or 360m",
                        cxxopts::value<std::string>()->default_value("10m"))(
      "pattern", "full, swa, sa, moba or sa_swa",
      cxxopts::value<std::string>()->default_value("full"))(
      "window", "keys", cxxopts::value<std::int64_t>()->default_value("256"))(
      "sequence", "tokens of a sequence", cxxopts::value<std::int64_t>()->default_value("512"))(
      "batch", "sequences of a step", cxxopts::value<std::int64_t>()->default_value("8"))(
      "threads", "0: all cores", cxxopts::value<int>()->default_value("2"))(
      "repeats", "timed steps; the best counts", cxxopts::value<int>()->default_value("5"))(
      "vectors", flywheel::bench::kVectorsHelp,
      cxxopts::value<std::string>()->default_value("all"))("help", "this text");
  return flywheel::run_program("bench_step", argc, argv, [&](int count, char** arguments) {
    const auto flags = flywheel::parse_options(options, count, arguments);
    if (flags.count("help")) {
      fmt::print("{}\n", options.help());
      return 0;
    }
    return flywheel::bench::run(flags);
  });
}

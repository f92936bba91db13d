#include "bench/device_training.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/philox.h"
#include "model/transformer.h"
#include "train/optimizer.h"

namespace flywheel::bench {
namespace {

constexpr std::array kPatterns{"full", "swa", "sa", "sa_swa"};
constexpr std::uint64_t kSeed = 1;

// Words that follow each other with some regularity, so that there is something to learn.
struct Tokens {
  std::vector<std::int32_t> inputs, targets, positions, cu_seqlens{0};

  explicit Tokens(const TrainingSetting& setting) {
    const RandomSequence random(kSeed, RandomStream::kCorpus);
    const std::int64_t count = setting.batch * setting.sequence;
    const auto vocabulary = static_cast<std::uint64_t>(setting.model.vocab_size);
    std::vector<std::int32_t> words;
    for (std::int64_t t = 0; t <= count; ++t) {
      const auto drawn = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(t), 64));
      words.push_back(
          static_cast<std::int32_t>(static_cast<std::uint64_t>(drawn * 37) % vocabulary));
    }
    inputs.assign(words.begin(), words.end() - 1);
    targets.assign(words.begin() + 1, words.end());
    for (std::int64_t t = 0; t < count; ++t) {
      positions.push_back(static_cast<std::int32_t>(t % setting.sequence));
    }
    for (std::int64_t s = 1; s <= setting.batch; ++s) {
      cu_seqlens.push_back(static_cast<std::int32_t>(s * setting.sequence));
    }
  }
  PackedTokens packed() const { return {inputs, targets, positions, cu_seqlens}; }
};

struct Run {
  std::vector<double> losses;
  double best_seconds = 0;  // of a step
};

ModelConfig with_pattern(ModelConfig config, const char* pattern) {
  config.attention.pattern.front().set_short_form(pattern);
  return config;
}

Run train(Backend& backend, const TrainingSetting& setting, const char* pattern,
          Precision precision) {
  const std::int64_t count = setting.batch * setting.sequence;
  Transformer model(with_pattern(setting.model, pattern), backend,
                    {.max_tokens = count, .max_sequences = setting.batch, .precision = precision});
  model.initialize(kSeed);
  const OptimizerConfig config;
  SingleCommunicator only_rank;
  Optimizer optimizer(backend, model, only_rank, config, false, kSeed);
  const Tokens tokens(setting);
  Run run;
  for (int step = 1; step <= setting.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    model.zero_gradients();
    model.queue_forward_backward(tokens.packed(),
                                 {.seed = kSeed, .draw = static_cast<std::uint32_t>(step)},
                                 1 / static_cast<double>(count), 0, {optimizer.loss_sum()});
    const StepSums sums = optimizer.step_sums();
    optimizer.update(step, config.learning_rate, sums.gradient_norm);
    backend.synchronize();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    run.losses.push_back(sums.losses / static_cast<double>(count));
    if (step == 1 || seconds < run.best_seconds) run.best_seconds = seconds;
  }
  return run;
}

}  // namespace

std::vector<TrainingFigures> time_training(Backend& device, const TrainingSetting& setting,
                                           double peak) {
  std::vector<TrainingFigures> all;
  fmt::print("\ntraining     first loss  last loss   step ms     tokens/s     MFU\n");
  for (const char* pattern : kPatterns) {
    const Run run = train(device, setting, pattern, Precision::Bfloat16);
    const double rate = static_cast<double>(setting.batch * setting.sequence) / run.best_seconds;
    const double work =
        Transformer::cost(with_pattern(setting.model, pattern), setting.sequence).flops_per_token;
    TrainingFigures f{pattern, run.losses, run.best_seconds,
                      rate,    {},         run.losses.back() < run.losses.front()};
    if (peak > 0) f.mfu = rate * work / peak;
    fmt::print("{:10} {:12.4f} {:10.4f} {:9.1f} {:12.0f} {:>7}{}\n", pattern, f.losses.front(),
               f.losses.back(), f.step_seconds * 1e3, rate,
               f.mfu ? fmt::format("{:.1f}%", 100 * *f.mfu) : "unknown",
               f.passed ? "" : "  FAILED: the loss did not fall");
    std::fflush(stdout);
    all.push_back(std::move(f));
  }
  return all;
}

std::vector<LossComparison> compare_losses(Backend& device, Backend& cpu,
                                           const TrainingSetting& setting) {
  constexpr double kAllowed = 0x1p-7;
  std::vector<LossComparison> all;
  fmt::print("\nlosses in bf16 beside float32 on the CPU, {} steps\n", setting.steps);
  for (const char* pattern : kPatterns) {
    LossComparison c{pattern, train(device, setting, pattern, Precision::Bfloat16).losses,
                     train(cpu, setting, pattern, Precision::Float32).losses};
    for (std::size_t i = 0; i < c.bf16.size(); ++i) {
      c.difference = std::max(c.difference, std::abs(c.bf16[i] / c.float32[i] - 1));
    }
    c.passed = c.difference <= kAllowed;
    fmt::print("{:10} {:12.4f} {:12.4f}   off by {:.1e} at most{}\n", pattern, c.bf16.back(),
               c.float32.back(), c.difference, c.passed ? "" : "  FAILED");
    std::fflush(stdout);
    all.push_back(std::move(c));
  }
  return all;
}

}  // namespace flywheel::bench

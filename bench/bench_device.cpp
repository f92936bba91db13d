// What the trainer does on a GPU: its losses beside the CPU's, its speed, and that of attention.
// tools/device_check.sh runs it; linked with the emulated GPU it is bench_device_emulated.

#include <fmt/format.h>

#include <algorithm>
#include <cxxopts.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/device_attention.h"
#include "bench/device_training.h"
#include "bench/models.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#include "train/factory.h"

namespace flywheel::bench {
namespace {

TrainConfig on_gpu() {
  TrainConfig config;
  config.device = DeviceChoice::Cuda;
  config.precision = Precision::Bfloat16;
  return config;
}

nlohmann::json json_of(const LossComparison& c) {
  return {{"pattern", c.pattern},
          {"bf16", c.bf16},
          {"float32_cpu", c.float32},
          {"largest_relative_difference", c.difference},
          {"passed", c.passed}};
}

nlohmann::json json_of(const TrainingFigures& f) {
  return {{"pattern", f.pattern},
          {"losses", f.losses},
          {"step_ms", f.step_seconds * 1e3},
          {"tokens_per_second", f.tokens_per_second},
          {"mfu", f.mfu ? nlohmann::json(*f.mfu) : nlohmann::json()},
          {"passed", f.passed}};
}

nlohmann::json json_of(const AttentionFigures& f) {
  return {{"pattern", f.pattern},
          {"length", f.length},
          {"tokens", f.tokens},
          {"visible_keys", f.visible_keys},
          {"forward_ms", f.forward_seconds * 1e3},
          {"backward_ms", f.backward_seconds * 1e3},
          {"forward_tflops", f.forward_tflops},
          {"backward_tflops", f.backward_tflops},
          {"speed_up_over_full", f.speed_up}};
}

template <class Figures>
nlohmann::json json_of(const std::vector<Figures>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const Figures& figures : all) list.push_back(json_of(figures));
  return list;
}

template <class Figures>
bool all_passed(const std::vector<Figures>& all) {
  return std::all_of(all.begin(), all.end(), [](const Figures& f) { return f.passed; });
}

// The arguments, as they were given.
std::string command_of(const cxxopts::ParseResult& flags) {
  std::string command = "bench_device";
  for (const auto& argument : flags.arguments()) {
    command += " --" + argument.key() + " " + argument.value();
  }
  return command;
}

TrainingSetting setting_of(const cxxopts::ParseResult& flags, const std::string& model) {
  TrainingSetting setting;
  setting.model = model_named(model);
  setting.model.attention.window = flags["window"].as<std::int64_t>();
  setting.sequence = flags["sequence"].as<std::int64_t>();
  setting.batch = flags["batch"].as<std::int64_t>();
  setting.steps = flags["steps"].as<int>();
  return setting;
}

// The exit code.
int run(const cxxopts::ParseResult& flags) {
  const auto gpu = make_backend(on_gpu());
  fmt::print("{}\n", gpu->description());
  if (flags.count("probe") > 0) return 0;
  const auto cpu = make_backend({});
  const double peak = peak_flops(on_gpu()).value;

  TrainingSetting compared = setting_of(flags, flags["compared-model"].as<std::string>());
  compared.batch = 1;
  compared.steps = 3;
  const auto losses = compare_losses(*gpu, *cpu, compared);
  const auto training =
      time_training(*gpu, setting_of(flags, flags["model"].as<std::string>()), peak);
  AttentionSetting attention;
  attention.lengths = flags["lengths"].as<std::vector<std::int64_t>>();
  attention.tokens = flags["batch"].as<std::int64_t>() * flags["sequence"].as<std::int64_t>();
  attention.heads = flags["heads"].as<std::int64_t>();
  attention.head_size = 64;
  attention.window = flags["window"].as<std::int64_t>();
  attention.budget_seconds = flags["budget"].as<double>();
  const auto times = time_attention(*gpu, attention);
  if (flags.count("json") > 0) {
    const nlohmann::json results{{"commit", flags["commit"].as<std::string>()},
                                 {"command", command_of(flags)},
                                 {"device", gpu->description()},
                                 {"peak_flops", peak},
                                 {"losses", json_of(losses)},
                                 {"training", json_of(training)},
                                 {"attention", json_of(times)}};
    std::ofstream(flags["json"].as<std::string>()) << results.dump(2) << "\n";
  }
  const bool passed = all_passed(losses) && all_passed(training);
  fmt::print("\n{}\n", passed ? "all passed" : "FAILED: see above");
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  using Lengths = std::vector<std::int64_t>;
  cxxopts::Options options("bench_device", "The trainer on a GPU: losses, speed, attention.");
  options.add_options()("probe", "only say which GPU there is (code 5: none)")(
      "model", "tiny, 10m or 360m", cxxopts::value<std::string>()->default_value("360m"))(
      "compared-model", "compared with float32 on the CPU",
      cxxopts::value<std::string>()->default_value("360m"))(
      "sequence", "tokens of a sequence", cxxopts::value<std::int64_t>()->default_value("2048"))(
      "batch", "sequences of a step", cxxopts::value<std::int64_t>()->default_value("32"))(
      "steps", "steps of each pattern", cxxopts::value<int>()->default_value("8"))(
      "window", "of swa and sa", cxxopts::value<std::int64_t>()->default_value("256"))(
      "lengths", "of sequences of attention",
      cxxopts::value<Lengths>()->default_value("2048,8192,32768"))(
      "heads", "of attention", cxxopts::value<std::int64_t>()->default_value("16"))(
      "budget", "seconds of a measurement", cxxopts::value<double>()->default_value("0.5"))(
      "commit", "noted in the file", cxxopts::value<std::string>()->default_value(""))(
      "json", "write the figures to this file", cxxopts::value<std::string>())("help", "this text");
  return flywheel::run_program("bench_device", argc, argv, [&](int count, char** arguments) {
    const auto flags = flywheel::parse_options(options, count, arguments);
    if (flags.count("help")) {
      fmt::print("{}\n", options.help());
      return 0;
    }
    return flywheel::bench::run(flags);
  });
}

// Speed of prefill and of decoding with a key-value cache, beside a plain read of memory.
//
//   bench_generate --threads 2

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <cxxopts.hpp>
#include <numeric>
#include <vector>

#include "bench/models.h"
#include "bench/probe.h"
#include "bench/timing_backend.h"
#include "cpu/cpu_backend.h"
#include "model/sequence_packer.h"
#include "model/transformer.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace flywheel::bench {
namespace {

constexpr std::int64_t kDecoded = 24;  // timed tokens of each sequence
constexpr double kSeconds = 2;         // of timed prefill

// With room for long contexts.
ModelConfig roomy(const std::string& name) {
  ModelConfig config = model_named(name);
  config.max_positions = 8192;
  return config;
}

// What a decoded token must read: every weight of a product, and the cached keys and values.
double bytes_of_step(const ModelConfig& model, DType type, std::int64_t context,
                     std::int64_t batch) {
  const ModelConfig config = with_defaults(model);
  const auto weights = static_cast<double>(Transformer::cost(config, 1).matmul_parameters);
  const auto cached =
      static_cast<double>(2 * config.layers * config.kv_heads * config.head_dim * context * batch);
  const double bytes_a_weight = static_cast<double>(bytes_of(type, 32)) / 32;
  return bytes_a_weight * weights + 4 * cached;
}

// Operations of a prompt: products of every token, of the head with the last one alone, and
// attention.
double operations_of_prefill(const ModelConfig& model, std::int64_t context) {
  const ModelConfig config = with_defaults(model);
  const auto tokens = static_cast<double>(context);
  const auto head = static_cast<double>(config.vocab_size * config.hidden_size);
  const ModelCost cost = Transformer::cost(config, context);
  const auto pairs = tokens * cost.mean_visible_keys *
                     static_cast<double>(config.layers * config.heads * config.head_dim);
  const double products = static_cast<double>(cost.matmul_parameters) - head;
  return 2 * tokens * products + 2 * head + 4 * pairs;
}

DType weights_named(const std::string& name) {
  for (const DType type : {DType::F32, DType::BF16, DType::Q8_0}) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorKind::Config, "--weights {}: expected f32, bf16 or q8_0", name);
}

// Which values they are makes no difference to the time.
void fill_weights(Transformer& model, DType type) {
  if (type == DType::F32) return model.initialize(1);
  for (const Parameter& parameter : model.parameters()) {
    const TensorView& value = parameter.value;
    std::memset(value.data, 0, static_cast<std::size_t>(value.bytes()));
  }
}

// Of one call among `calls`.
void print_breakdown(const char* name, const TimingBackend& timed, std::int64_t calls) {
  double total = 0;
  for (const auto& [op, seconds] : timed.seconds()) total += seconds;
  for (const auto& [op, seconds] : timed.seconds()) {
    fmt::print("  {:7} {:24} {:9.3f} ms {:5.1f} %\n", name, op,
               1e3 * seconds / static_cast<double>(calls), 100 * seconds / total);
  }
}

void measure(const char* name, const ModelConfig& config, DType type, std::int64_t context,
             std::int64_t batch, Backend& backend, MachineProbe& probe, bool breakdown) {
  TimingBackend timed(backend);
  const TransformerLimits limits{.max_tokens = context * batch,
                                 .max_sequences = batch,
                                 .training = false,
                                 .cache_slots = batch,
                                 .cache_length = context + kDecoded + 1,
                                 .weights = type};
  Transformer model(config, timed, limits);
  fill_weights(model, type);
  SequencePacker packer;
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(context), 7);
  const std::vector<std::int32_t> targets(tokens.size(), -1);
  for (std::int64_t s = 0; s < batch; ++s) packer.add(tokens, targets);
  std::vector<std::int32_t> slots(static_cast<std::size_t>(batch));
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<float> logits(slots.size() * static_cast<std::size_t>(config.vocab_size));

  const auto count = static_cast<double>(batch);
  std::int64_t prefills = 0;
  const PairedTiming prefill = paired_timing(
      [&] {
        model.prefill(packer.view(), {}, slots, logits);
        ++prefills;
      },
      1e-9 * count * operations_of_prefill(config, context), [&] { return probe.sample_peak(); },
      kSeconds);
  if (breakdown) print_breakdown("prefill", timed, prefills);
  timed.reset();
  std::vector<double> shares;
  double best = 1e30;
  const double bytes = bytes_of_step(config, type, context + kDecoded / 2, batch);
  const std::vector<std::int32_t> next(slots.size(), 5);
  for (std::int64_t i = 0; i < kDecoded; ++i) {
    const double before = probe.sample_read();
    const Stopwatch watch;
    model.decode(next, slots, DecodeAttention::Full, logits);
    const double seconds = watch.seconds();
    best = std::min(best, seconds);
    shares.push_back(1e-9 * bytes / seconds / ((before + probe.sample_read()) / 2));
  }
  fmt::print(
      "{:5} {:4} context {:5} batch {}: prefill {:8.0f} tokens/s, {:.2f} of the peak (median); "
      "decode {:7.1f} tokens/s, {:6.2f} ms a step, {:5.1f} MB read, {:5.1f} GB/s, {:.2f} of a "
      "plain "
      "read (median)\n",
      name, name_of(type), context, batch,
      static_cast<double>(context) * count / prefill.best_seconds, prefill.share, count / best,
      1e3 * best, 1e-6 * bytes, 1e-9 * bytes / best, median(shares));
  if (breakdown) print_breakdown("decode", timed, kDecoded);
}

int run(const cxxopts::ParseResult& flags) {
  limit_vectors(flags["vectors"].as<std::string>());
  const int threads = flags["threads"].as<int>();
  const auto backend = make_cpu_backend(threads);
  ThreadPool pool(threads);
  MachineProbe probe(pool);
  fmt::print("{}\n", backend->description());
  for (const auto batch : flags["batch"].as<std::vector<std::int64_t>>()) {
    for (const auto context : flags["context"].as<std::vector<std::int64_t>>()) {
      const bool breakdown = flags.count("breakdown") != 0;
      for (const auto& weights : flags["weights"].as<std::vector<std::string>>()) {
        const DType type = weights_named(weights);
        for (const auto& name : flags["model"].as<std::vector<std::string>>()) {
          measure(name.c_str(), roomy(name), type, context, batch, *backend, probe, breakdown);
        }
      }
    }
  }
  fmt::print("plain read of memory: {:.1f} GB/s at best\n", probe.read_gb_per_second());
  return 0;
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  cxxopts::Options options("bench_generate", "Speed of prefill and of decoding.");
  auto option = options.add_options();
  option("threads", "0: all cores", cxxopts::value<int>()->default_value("0"));
  option("context", "tokens of the prompt",
         cxxopts::value<std::vector<std::int64_t>>()->default_value("128,1024,4096"));
  option("batch", "sequences at a time",
         cxxopts::value<std::vector<std::int64_t>>()->default_value("1"));
  option("model", "of these shapes: 135m is SmolLM2, 124m GPT-2, 360m of Llama's type",
         cxxopts::value<std::vector<std::string>>()->default_value("135m,124m,360m"));
  option("weights", "their types: f32, bf16 and q8_0",
         cxxopts::value<std::vector<std::string>>()->default_value("f32,bf16,q8_0"));
  option("breakdown", "time by op");
  option("vectors", flywheel::bench::kVectorsHelp,
         cxxopts::value<std::string>()->default_value("all"));
  option("help", "this text");
  return flywheel::run_program("bench_generate", argc, argv, [&](int count, char** arguments) {
    const auto flags = flywheel::parse_options(options, count, arguments);
    if (flags.count("help") != 0) {
      fmt::print("{}\n", options.help());
      return 0;
    }
    return flywheel::bench::run(flags);
  });
}

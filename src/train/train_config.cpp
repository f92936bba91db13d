#include "train/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json_fields.h"

namespace flywheel {
namespace {

constexpr std::int64_t kAutomaticMicroBatchTokens = 8192;
constexpr std::int64_t kDefaultWarmupDivisor = 50;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

class RangeChecker {
 public:
  RangeChecker(ConfigFaults& faults, std::string section)
      : faults_(faults), section_(std::move(section)) {}

  void integer(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
      add(key, fmt::format("expected {} to {}, got {}", low, high, value));
    }
  }
  void integer(const char* key, const std::optional<std::int64_t>& value, std::int64_t low,
               std::int64_t high) {
    if (value) integer(key, *value, low, high);
  }
  void number(const char* key, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      add(key, fmt::format("expected {} to {}, got {}", low, high, value));
    }
  }
  void add(const char* key, std::string_view fault) {
    faults_.add(json_fields::join(section_, key), fault);
  }

 private:
  ConfigFaults& faults_;
  std::string section_;
};

void validate_data(const RunConfig& config, ConfigFaults& faults) {
  const DataConfig& data = config.data;
  RangeChecker check(faults, "data");
  if (data.tokenizer.empty()) check.add("tokenizer", "expected 'byte', a file or a folder");
  if (data.train.empty()) {
    check.add("train", R"(expected at least one source, as in [{"files": ["train_*.bin"]}])");
  }
  for (std::size_t i = 0; i < data.train.size(); ++i) {
    const std::string path = fmt::format("data.train.{}", i);
    faults.require(!data.train[i].files.empty(), path + ".files", "expected at least one file");
    faults.require(data.train[i].weight > 0 && std::isfinite(data.train[i].weight),
                   path + ".weight",
                   fmt::format("expected more than 0, got {}", data.train[i].weight));
  }
  check.integer("sequence_length", data.sequence_length, 1, std::int64_t{1} << 24);
  if (data.sequence_length > config.model.max_positions) {
    check.add("sequence_length", fmt::format("{} is more than model.max_positions, {}",
                                             data.sequence_length, config.model.max_positions));
  }
}

void validate_optimization(const RunConfig& config, ConfigFaults& faults) {
  const OptimizerConfig& optimizer = config.optimizer;
  RangeChecker check(faults, "optimizer");
  check.number("learning_rate", optimizer.learning_rate, 0, 1e30);
  check.number("beta1", optimizer.beta1, 0, 0.9999999);
  check.number("beta2", optimizer.beta2, 0, 0.9999999);
  check.number("eps", optimizer.eps, 1e-30, 1);
  check.number("weight_decay", optimizer.weight_decay, 0, 1e3);
  check.number("clip_norm", optimizer.clip_norm, 0, 1e30);
  check.number("z_loss", optimizer.z_loss, 0, 1e3);

  const ScheduleConfig& schedule = config.schedule;
  RangeChecker check_schedule(faults, "schedule");
  check_schedule.integer("warmup_steps", schedule.warmup_steps, 0, kMaxCount);
  check_schedule.integer("warmup_tokens", schedule.warmup_tokens, 0, std::int64_t{1} << 60);
  if (schedule.warmup_steps && schedule.warmup_tokens) {
    check_schedule.add("warmup_tokens", "give this or warmup_steps, not both");
  }
  check_schedule.number("final_fraction", schedule.final_fraction, 0, 1);
  check_schedule.number("decay_fraction", schedule.decay_fraction, 0, 1);
}

void validate_batch(const RunConfig& config, ConfigFaults& faults) {
  const TrainConfig& train = config.train;
  RangeChecker check(faults, "train");
  const std::int64_t length = std::max<std::int64_t>(1, config.data.sequence_length);
  check.integer("global_batch_tokens", train.global_batch_tokens, 1, std::int64_t{1} << 31);
  const std::int64_t sequences = train.global_batch_tokens / length;
  if (train.global_batch_tokens % length != 0 || sequences == 0) {
    check.add(
        "global_batch_tokens",
        fmt::format(
            "expected a multiple of data.sequence_length, {}; nearest is {}", length,
            std::max<std::int64_t>(1, (train.global_batch_tokens + length / 2) / length) * length));
  }
  check.integer("micro_batch_sequences", train.micro_batch_sequences, 0, std::int64_t{1} << 24);
  if (train.micro_batch_sequences > 0 && sequences % train.micro_batch_sequences != 0) {
    check.add("micro_batch_sequences",
              fmt::format("expected a divisor of the {} sequences of a step, got {}", sequences,
                          train.micro_batch_sequences));
  }
}

void validate_run(const RunConfig& config, ConfigFaults& faults) {
  const TrainConfig& train = config.train;
  RangeChecker check(faults, "train");
  check.integer("max_steps", train.max_steps, 1, kMaxCount);
  check.integer("max_tokens", train.max_tokens, 1, std::int64_t{1} << 60);
  if (train.max_steps.has_value() == train.max_tokens.has_value()) {
    check.add("max_steps", train.max_steps ? "give this or max_tokens, not both"
                                           : "expected this or max_tokens");
  }
  check.integer("validation_every", train.validation_every, 0, kMaxCount);
  check.integer("validation_sequences", train.validation_sequences, 1, std::int64_t{1} << 24);
  check.integer("log_every", train.log_every, 1, kMaxCount);
  check.integer("threads", train.threads, 0, 4096);
  if (train.precision == Precision::Bfloat16 && train.device == DeviceChoice::Cpu) {
    check.add("precision", "the CPU computes in float32; expected that, or train.device cuda");
  }
  if (train.device == DeviceChoice::Cpu) {
    constexpr const char* kOnly = "only on a GPU; expected {}, or train.device cuda";
    if (!train.matmul_algorithms.empty())
      check.add("matmul_algorithms", fmt::format(kOnly, "\"\""));
    if (train.cuda_graphs) check.add("cuda_graphs", fmt::format(kOnly, "false"));
  }

  RangeChecker(faults, "parallel")
      .integer("timeout_seconds", config.parallel.timeout_seconds, 1, 1 << 20);
  RangeChecker check_checkpoint(faults, "checkpoint");
  check_checkpoint.integer("every", config.checkpoint.every, 0, kMaxCount);
  check_checkpoint.integer("keep_last", config.checkpoint.keep_last, 2, kMaxCount);
  check_checkpoint.integer("keep_every", config.checkpoint.keep_every, 0, kMaxCount);
  RangeChecker(faults, "log").number("outlier_sigmas", config.log.outlier_sigmas, 0, 1e6);
}

// A prompt has no more tokens than bytes, and one that begins the document.
void validate_samples(const RunConfig& config, ConfigFaults& faults) {
  const SamplesConfig& samples = config.samples;
  RangeChecker check(faults, "samples");
  check.integer("every", samples.every, 0, kMaxCount);
  check.integer("tokens", samples.tokens, 1, std::int64_t{1} << 24);
  check.number("temperature", samples.temperature, 0, 1e3);
  if (samples.every > 0 && samples.prompts.empty()) check.add("prompts", "expected at least one");
  for (std::size_t i = 0; i < samples.prompts.size(); ++i) {
    const std::int64_t bytes = std::ssize(samples.prompts[i]);
    faults.require(bytes < config.data.sequence_length, fmt::format("samples.prompts.{}", i),
                   fmt::format("{} bytes; expected fewer than data.sequence_length, {}", bytes,
                               config.data.sequence_length));
  }
}

std::int64_t automatic_micro_batch(std::int64_t sequences, std::int64_t sequence_length) {
  std::int64_t best = 1;
  for (std::int64_t count = 1; count <= sequences; ++count) {
    if (count * sequence_length > kAutomaticMicroBatchTokens) break;
    if (sequences % count == 0) best = count;
  }
  return best;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// What kernels on a GPU do not take.
void validate_for_gpu(const ModelConfig& model, ConfigFaults& faults) {
  constexpr std::int64_t kLargestHead = 256;
  const std::int64_t size = model.head_dim > 0
                                ? model.head_dim
                                : model.hidden_size / std::max<std::int64_t>(1, model.heads);
  faults.require(size <= kLargestHead, "model.head_dim",
                 fmt::format("{}; expected up to {} with train.device cuda", size, kLargestHead));
}

// What models can be, but not be trained as.
void validate_trainable(const ModelConfig& model, ConfigFaults& faults) {
  faults.require(model.experts.count == 0, "model.experts.count",
                 "a mixture of experts cannot be trained yet; expected 0");
}

}  // namespace

void validate(const RunConfig& config, ConfigFaults& faults) {
  validate(config.model, [&](std::string_view path, std::string_view fault) {
    faults.add(json_fields::join("model", path), fault);
  });
  validate_trainable(config.model, faults);
  if (config.train.device == DeviceChoice::Cuda) validate_for_gpu(config.model, faults);
  validate_data(config, faults);
  validate_optimization(config, faults);
  validate_batch(config, faults);
  validate_run(config, faults);
  validate_samples(config, faults);
}

RunConfig resolved(RunConfig config) {
  config.model = with_defaults(config.model);
  TrainConfig& train = config.train;
  if (!train.max_steps) train.max_steps = divide_up(*train.max_tokens, train.global_batch_tokens);
  train.max_tokens.reset();
  ScheduleConfig& schedule = config.schedule;
  if (schedule.warmup_tokens) {
    schedule.warmup_steps = divide_up(*schedule.warmup_tokens, train.global_batch_tokens);
    schedule.warmup_tokens.reset();
  } else if (!schedule.warmup_steps) {
    schedule.warmup_steps = divide_up(*train.max_steps, kDefaultWarmupDivisor);
  }
  if (train.micro_batch_sequences == 0) {
    train.micro_batch_sequences =
        automatic_micro_batch(config.batch_sequences(), config.data.sequence_length);
  }
  return config;
}

RunConfig load_run_config(const std::filesystem::path& file,
                          std::span<const std::string> overrides) {
  RunConfig config;
  ConfigFaults faults(file.string());
  read_fields(config, read_json_file(file), faults);
  override_fields(config, overrides, faults);
  faults.set_source(file.string());
  validate(config, faults);
  faults.throw_if_any();
  if (config.checkpoint.folder.empty()) {
    config.checkpoint.folder = (std::filesystem::path("runs") / file.stem()).string();
  }
  return resolved(std::move(config));
}

std::string run_config_to_json(const RunConfig& config) {
  return write_fields(config).dump(2);
}

std::string run_config_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Flywheel training run"}};
  schema.update(schema_of<RunConfig>());
  return schema.dump(2);
}

}  // namespace flywheel

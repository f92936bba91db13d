#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config_faults.h"
#include "core/fields.h"
#include "data/loader.h"
#include "model/model_config.h"
#include "model/transformer.h"

namespace flywheel {

enum class ScheduleKind : std::uint8_t { Cosine, Linear, Wsd, Constant };
constexpr auto enum_names(ScheduleKind) {
  return std::array{EnumName{"cosine", ScheduleKind::Cosine},
                    EnumName{"linear", ScheduleKind::Linear}, EnumName{"wsd", ScheduleKind::Wsd},
                    EnumName{"constant", ScheduleKind::Constant}};
}

enum class NonFinitePolicy : std::uint8_t { Stop, Skip };
constexpr auto enum_names(NonFinitePolicy) {
  return std::array{EnumName{"stop", NonFinitePolicy::Stop},
                    EnumName{"skip", NonFinitePolicy::Skip}};
}

enum class WriteFailurePolicy : std::uint8_t { Continue, Stop };
constexpr auto enum_names(WriteFailurePolicy) {
  return std::array{EnumName{"continue", WriteFailurePolicy::Continue},
                    EnumName{"stop", WriteFailurePolicy::Stop}};
}

enum class DeviceChoice : std::uint8_t { Cpu, Cuda };
constexpr auto enum_names(DeviceChoice) {
  return std::array{EnumName{"cpu", DeviceChoice::Cpu}, EnumName{"cuda", DeviceChoice::Cuda}};
}

struct DataConfig {
  std::string tokenizer = "byte";
  std::vector<DataSourceConfig> train;
  std::vector<std::string> validation;
  std::int64_t sequence_length = 1024;
  bool document_mask = false;
  std::uint64_t seed = 0;
  bool verify = true;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("tokenizer", self.tokenizer, "byte, a tokenizer.json, or a folder with a tokenizer");
    visit("train", self.train, "sources of training tokens");
    visit("validation", self.validation, "token files of the validation set (globs allowed)");
    visit("sequence_length", self.sequence_length, "tokens of a sequence");
    visit("document_mask", self.document_mask, "cut sequences where documents begin");
    visit("seed", self.seed, "order of the data");
    visit("verify", self.verify, "read all training shards at the start and compare checksums");
  }
};

struct OptimizerConfig {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;
  double z_loss = 0.0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("learning_rate", self.learning_rate, "peak learning rate of AdamW");
    visit("beta1", self.beta1, "decay of the mean of gradients");
    visit("beta2", self.beta2, "decay of the mean of squared gradients");
    visit("eps", self.eps, "added to the root of the mean square");
    visit("weight_decay", self.weight_decay, "decoupled weight decay, on matrices only");
    visit("clip_norm", self.clip_norm, "largest norm of the whole gradient; 0 = no clipping");
    visit("z_loss", self.z_loss, "weight of the squared log-sum-exp of the logits; 0 = off");
  }
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::Cosine;
  std::optional<std::int64_t> warmup_steps;
  std::optional<std::int64_t> warmup_tokens;
  double final_fraction = 0.1;
  double decay_fraction = 0.2;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("kind", self.kind, "how the learning rate falls after the warmup");
    visit("warmup_steps", self.warmup_steps,
          "steps of linear warmup; without it and warmup_tokens, 2% of the run");
    visit("warmup_tokens", self.warmup_tokens, "the same in tokens");
    visit("final_fraction", self.final_fraction, "last learning rate over the peak");
    visit("decay_fraction", self.decay_fraction, "wsd: share of the run that decays");
  }
};

struct TrainConfig {
  std::uint64_t seed = 0;
  std::optional<std::int64_t> max_steps;
  std::optional<std::int64_t> max_tokens;
  std::int64_t global_batch_tokens = 65536;
  std::int64_t micro_batch_sequences = 0;
  RecomputePolicy recompute = RecomputePolicy::None;
  NonFinitePolicy non_finite = NonFinitePolicy::Stop;
  std::int64_t validation_every = 250;
  std::int64_t validation_sequences = 64;
  std::int64_t log_every = 10;
  std::int64_t threads = 0;
  DeviceChoice device = DeviceChoice::Cpu;
  Precision precision = Precision::Float32;
  std::string matmul_algorithms;
  bool cuda_graphs = false;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("seed", self.seed, "initial weights and attention permutations");
    visit("max_steps", self.max_steps, "steps of the run; this or max_tokens");
    visit("max_tokens", self.max_tokens, "tokens of the run, rounded up to whole steps");
    visit("global_batch_tokens", self.global_batch_tokens,
          "tokens of a step, a multiple of data.sequence_length");
    visit("micro_batch_sequences", self.micro_batch_sequences,
          "sequences computed at a time; 0 = as many as divide the batch, up to 8192 tokens");
    visit("recompute", self.recompute, "what backward computes again to save memory");
    visit("non_finite", self.non_finite, "stop, or skip the update, when a gradient is NaN or inf");
    visit("validation_every", self.validation_every, "steps between validations; 0 = never");
    visit("validation_sequences", self.validation_sequences, "sequences of a validation");
    visit("log_every", self.log_every, "steps between lines of the log and of the metrics");
    visit("threads", self.threads, "threads of the CPU backend; 0 = all cores");
    visit("device", self.device, "where to compute");
    visit("precision", self.precision, "of activations and weights in a pass; bfloat16 on cuda");
    visit("matmul_algorithms", self.matmul_algorithms,
          "cuda: a file of the fastest algorithm of each product; those that it lacks are measured "
          "and added; empty = cuBLASLt's own choice");
    visit("cuda_graphs", self.cuda_graphs,
          "cuda: queue a micro-batch as one graph, which pays where its kernels are short");
  }
};

struct CheckpointConfig {
  std::string folder;
  std::int64_t every = 1000;
  std::int64_t keep_last = 2;
  std::int64_t keep_every = 0;
  bool keep_best = true;
  WriteFailurePolicy on_write_failure = WriteFailurePolicy::Continue;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("folder", self.folder, "folder of the run; empty = runs/NAME of the config file");
    visit("every", self.every, "steps between checkpoints; 0 = only at the end");
    visit("keep_last", self.keep_last, "newest checkpoints that are kept, 2 or more");
    visit("keep_every", self.keep_every, "also keep those of every so many steps; 0 = none");
    visit("keep_best", self.keep_best, "also keep the one with the lowest validation loss");
    visit("on_write_failure", self.on_write_failure,
          "what follows a checkpoint that could not be written before the end");
  }
};

struct LogConfig {
  bool tensorboard = true;
  double outlier_sigmas = 6.0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("tensorboard", self.tensorboard, "write TensorBoard event files into the run's folder");
    visit("outlier_sigmas", self.outlier_sigmas,
          "warn of a loss or gradient norm this far above its recent mean; 0 = never");
  }
};

// Texts that the model continues from time to time, to see what it has learnt.
struct SamplesConfig {
  std::int64_t every = 0;
  std::vector<std::string> prompts{""};
  std::int64_t tokens = 64;
  double temperature = 0.8;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("every", self.every, "steps between samples; 0 = none");
    visit("prompts", self.prompts, "texts to continue; an empty one begins a document");
    visit("tokens", self.tokens, "tokens of a continuation");
    visit("temperature", self.temperature, "of the draws; 0 = the most likely token");
  }
};

// How several ranks share the work. The number of ranks is the launcher's to say.
struct ParallelConfig {
  bool shard_optimizer = true;
  std::int64_t timeout_seconds = 600;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("shard_optimizer", self.shard_optimizer,
          "each rank keeps and updates its part of the optimizer's state (ZeRO-1)");
    visit("timeout_seconds", self.timeout_seconds,
          "how long a rank waits for another before the job ends");
  }
};

// Everything that decides a run.
struct RunConfig {
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  SamplesConfig samples;
  LogConfig log;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("model", self.model, "the model");
    visit("data", self.data, "what it is trained on");
    visit("optimizer", self.optimizer, "AdamW");
    visit("schedule", self.schedule, "the learning rate over time");
    visit("train", self.train, "the run");
    visit("parallel", self.parallel, "several ranks");
    visit("checkpoint", self.checkpoint, "what is saved");
    visit("samples", self.samples, "texts that the model continues from time to time");
    visit("log", self.log, "what is reported");
  }

  // Of a resolved config.
  std::int64_t batch_sequences() const { return train.global_batch_tokens / data.sequence_length; }
};

void validate(const RunConfig& config, ConfigFaults& faults);

// Fills in what depends on other values, so that the result states the whole run: max_steps,
// warmup_steps, micro_batch_sequences, the model's defaults.
RunConfig resolved(RunConfig config);

// Reads, overrides, validates and resolves. Error Config lists all faults.
RunConfig load_run_config(const std::filesystem::path& file,
                          std::span<const std::string> overrides);

std::string run_config_to_json(const RunConfig& config);  // indented
std::string run_config_schema();                          // JSON Schema

}  // namespace flywheel

#include "train/run.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>

#include "core/error.h"
#include "core/file_io.h"
#include "train/factory.h"
#include "train/metrics.h"
#include "train/outliers.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/signals.h"
#include "train/tables.h"
#include "train/trainer.h"

namespace flywheel {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Line breaks and tabs as escapes: a sample is one line of the log.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      line += c;
    }
  }
  return line;
}

// One run from its start, or from a checkpoint, to its end. The first rank has a folder; the others
// only compute.
class Run {
 public:
  Run(const RunConfig& config, RunFolder* folder, Trainer& trainer, Communicator& ranks,
      double peak_flops, ContinuePrompts continue_prompts, Console& console)
      : config_(config),
        continue_prompts_(std::move(continue_prompts)),
        folder_(folder),
        trainer_(trainer),
        ranks_(ranks),
        console_(console),
        meter_(config.train.global_batch_tokens,
               Transformer::cost(config.model, config.data.sequence_length).flops_per_token,
               peak_flops),
        loss_outliers_(config.log.outlier_sigmas),
        norm_outliers_(config.log.outlier_sigmas),
        saved_step_(trainer.steps_taken()) {
    if (folder_ != nullptr) {
      metrics_.emplace(folder_->path(), trainer.steps_taken(), config.log.tensorboard);
    }
  }

  // False: interrupted by a signal.
  bool train(const StopRequest& stop) {
    const std::int64_t last = *config_.train.max_steps;
    while (trainer_.steps_taken() < last && !on_any_rank(stop.requested())) {
      take_step();
      const std::int64_t step = trainer_.steps_taken();
      if (is_due(config_.train.validation_every, step)) validate();
      if (is_due(config_.samples.every, step)) show_samples();
      if (is_due(config_.checkpoint.every, step) && step < last) save_if_possible();
    }
    const bool finished = trainer_.steps_taken() >= last;
    if (!finished)
      console_.line(
          fmt::format("{}: saving after step {}", stop.signal_name(), trainer_.steps_taken()));
    if (trainer_.steps_taken() > saved_step_) save(finished);
    return finished;
  }

 private:
  bool on_any_rank(bool what) {
    double count = what ? 1 : 0;
    ranks_.sum(std::span(&count, 1));
    return count > 0;
  }

  bool is_due(std::int64_t every, std::int64_t step) const {
    return every > 0 && (step % every == 0 || step == *config_.train.max_steps);
  }

  void take_step() {
    const auto begin = Clock::now();
    const StepReport report = trainer_.step();
    meter_.add(seconds_since(begin), report.data_wait_seconds);
    warn_of_outliers(report);
    const std::string line = progress_line(report, *config_.train.max_steps, meter_);
    const bool first = report.step == 1;
    if (!first && !report.skipped && !is_due(config_.train.log_every, report.step)) {
      return console_.progress(line);
    }
    console_.line(line);
    write_metrics(report);
    meter_.start_interval();
    sample_peak_again();
  }

  void sample_peak_again() {
    constexpr double kSeconds = 60;
    if (seconds_since(peak_sampled_) < kSeconds) return;
    meter_.sample_peak(static_cast<double>(ranks_.ranks()) * peak_flops(config_.train).value);
    peak_sampled_ = Clock::now();
  }

  void write_metrics(const StepReport& report) {
    if (!metrics_) return;
    std::vector<Scalar> scalars{
        Scalar{"loss", report.loss},
        Scalar{"learning_rate", report.learning_rate},
        Scalar{"gradient_norm", report.gradient_norm},
        Scalar{"tokens", static_cast<double>(report.step * config_.train.global_batch_tokens)},
        Scalar{"epochs", trainer_.epochs()},
        Scalar{"tokens_per_second", meter_.tokens_per_second()},
        Scalar{"data_wait_share", meter_.data_wait_share()},
        Scalar{"skipped_steps", static_cast<double>(trainer_.skipped_steps())}};
    if (const auto share = meter_.utilisation()) scalars.push_back({"mfu", *share});
    metrics_->write("train", report.step, scalars);
  }

  void warn_of_outliers(const StepReport& report) {
    if (report.skipped) {
      return console_.warning(
          fmt::format("step {}: loss {}, gradient norm {}{}; the update is skipped ({} so far)",
                      report.step, report.loss, report.gradient_norm,
                      report.culprit.empty() ? "" : " (first in " + report.culprit + ")",
                      trainer_.skipped_steps()));
    }
    warn_of_outlier(loss_outliers_, report.step, "loss", report.loss);
    warn_of_outlier(norm_outliers_, report.step, "gradient norm", report.gradient_norm);
  }

  void warn_of_outlier(OutlierDetector& detector, std::int64_t step, const char* what,
                       double value) {
    if (const auto sigmas = detector.observe(value)) {
      console_.warning(
          fmt::format("step {}: the {} {:.4g} is {:.1f} standard deviations above its "
                      "recent mean",
                      step, what, value, *sigmas));
    }
  }

  void validate() {
    if (!trainer_.has_validation() || validated_step_ == trainer_.steps_taken()) return;
    validation_loss_ = trainer_.validate();
    validated_step_ = trainer_.steps_taken();
    console_.line(fmt::format("step {}  validation loss {:.4f}  perplexity {:.2f}", validated_step_,
                              validation_loss_, std::exp(validation_loss_)));
    const std::array scalars{Scalar{"loss", validation_loss_},
                             Scalar{"perplexity", std::exp(validation_loss_)}};
    if (metrics_) metrics_->write("validation", validated_step_, scalars);
  }

  void show_samples() {
    if (!metrics_) return;
    const SamplesConfig& samples = config_.samples;
    const std::int64_t step = trainer_.steps_taken();
    const auto texts = continue_prompts_(trainer_.model(), limits_of(config_), trainer_.tokenizer(),
                                         samples, config_.train.seed);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      console_.line(
          fmt::format("step {}  sample: {}", step, one_line(samples.prompts[i] + texts[i])));
      metrics_->write_sample(step, i, samples.prompts[i], texts[i]);
    }
  }

  // A checkpoint is only compared with others by its validation loss, so it gets one.
  void save(bool validated) {
    if (validated && config_.checkpoint.keep_best) validate();
    CheckpointState state = trainer_.state();
    if (validated_step_ == state.step && std::isfinite(validation_loss_)) {
      state.validation_loss = validation_loss_;
    }
    const auto begin = Clock::now();
    const OptimizerState optimizer = trainer_.optimizer_state();
    std::exception_ptr failure;
    if (folder_ != nullptr) {
      try {
        folder_->checkpoints().save(state, [&](const std::filesystem::path& folder) {
          trainer_.write_files(folder, optimizer);
        });
      } catch (const Error&) {
        failure = std::current_exception();
      }
    }
    const bool failed = on_any_rank(failure != nullptr);
    if (failure) std::rethrow_exception(failure);
    require(!failed, ErrorKind::Io, "the first rank could not write the checkpoint");
    saved_step_ = state.step;
    if (folder_ == nullptr) return;
    console_.line(fmt::format("step {}  saved {} in {:.1f} s", state.step,
                              folder_->checkpoints().path_of(state.step).string(),
                              seconds_since(begin)));
  }

  void save_if_possible() {
    try {
      save(true);
    } catch (const Error& error) {
      const bool goes_on = config_.checkpoint.on_write_failure == WriteFailurePolicy::Continue;
      if (!goes_on || error.kind() != ErrorKind::Io) throw;
      console_.warning(fmt::format("no checkpoint of step {}, training goes on: {}",
                                   trainer_.steps_taken(), error.what()));
    }
  }

  const RunConfig& config_;
  ContinuePrompts continue_prompts_;
  RunFolder* folder_;  // null on all ranks but the first
  Trainer& trainer_;
  Communicator& ranks_;
  Console& console_;
  std::optional<Metrics> metrics_;
  ProgressMeter meter_;
  Clock::time_point peak_sampled_ = Clock::now();
  OutlierDetector loss_outliers_;
  OutlierDetector norm_outliers_;
  std::int64_t saved_step_;
  std::int64_t validated_step_ = -1;
  double validation_loss_ = 0;
};

void show_tables(const RunConfig& config, const PeakFlops& peak, Console& console) {
  console.line(console.bold("config") + (console.is_terminal() ? "" : "  (* = not the default)"));
  console.line(config_table(config, console));
  for (const std::string& table :
       {parameter_table(config.model), memory_table(config), cost_table(config, peak)}) {
    console.line("");
    console.line(table);
  }
}

void show_data(const DataSummary& data, const RunConfig& config, Console& console) {
  const auto run_tokens =
      static_cast<double>(*config.train.max_steps * config.train.global_batch_tokens);
  console.line(fmt::format("data: {} tokens; the run reads {:.2f} times as many",
                           human_count(static_cast<double>(data.tokens)),
                           run_tokens / static_cast<double>(data.tokens)));
}

// What the first rank found to go on from, on every rank.
std::optional<CheckpointState> share_resume_point(std::optional<CheckpointState> found,
                                                  const RunConfig& config, Communicator& ranks) {
  double step = found ? static_cast<double>(found->step) : 0;
  ranks.sum(std::span(&step, 1));
  if (step == 0 || ranks.rank() == 0) return found;
  const CheckpointStore store(config.checkpoint.folder, config.checkpoint);
  return store.verify(static_cast<std::int64_t>(step));
}

void train_as_rank(const RunConfig& config, const RunOptions& options, Backend& backend,
                   Communicator& ranks, Console& console) {
  const StopRequest stop;
  std::optional<RunFolder> folder;
  std::optional<CheckpointState> checkpoint;
  if (ranks.rank() == 0) {
    folder.emplace(config.checkpoint);
    if (options.resume) {
      checkpoint = folder->find_resume_point(config, console);
    } else if (!options.overwrite) {
      folder->require_unused();
    }
  }
  checkpoint = share_resume_point(std::move(checkpoint), config, ranks);
  require(config.samples.every == 0 || options.continue_prompts, ErrorKind::Internal,
          "samples are wanted, but nothing draws them");
  PeakFlops peak = peak_flops(config.train);
  peak.value *= static_cast<double>(ranks.ranks());
  if (!checkpoint) {
    show_tables(config, peak, console);
    console.line("\ndevice: " + backend.description());
  }
  if (ranks.ranks() > 1) console.line(fmt::format("ranks: {}", ranks.ranks()));
  const CheckpointStore store(config.checkpoint.folder, config.checkpoint);
  Trainer trainer(config, backend, ranks, checkpoint ? &*checkpoint : nullptr,
                  checkpoint ? store.path_of(checkpoint->step) : "");
  show_data(trainer.data(), config, console);
  if (folder) {
    if (options.overwrite) folder->checkpoints().clear();
    write_file_atomically(folder->path() / "config.json", run_config_to_json(config) + "\n");
  }
  if (checkpoint) {
    console.line(
        fmt::format("resuming {} after step {}", config.checkpoint.folder, checkpoint->step));
  } else if (options.resume) {
    console.line("no checkpoint yet: starting at step 1");
  }
  Run run(config, folder ? &*folder : nullptr, trainer, ranks, peak.value, options.continue_prompts,
          console);
  if (run.train(stop)) {
    console.line(fmt::format("finished: {} steps, checkpoints in {}", trainer.steps_taken(),
                             config.checkpoint.folder));
    console.line(fmt::format("look at it:\n  {} {}", options.report_program,
                             shell_quote(config.checkpoint.folder)));
  } else {
    console.line("resume with:\n  " + launch_prefix(ranks.ranks()) + options.resume_command);
  }
}

}  // namespace

void run_training(const RunConfig& config, const RunOptions& options, Console& console) {
  const auto backend = make_backend(config.train);
  const auto ranks = make_communicator(config, *backend);
  Console silence(nullptr);
  train_as_rank(config, options, *backend, *ranks, ranks->rank() == 0 ? console : silence);
}

void preview_run(const RunConfig& config, Console& console) {
  try {
    const auto backend = make_backend(config.train);
    show_tables(config, peak_flops(config.train), console);
    console.line("\ndevice: " + backend->description());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Device) throw;
    show_tables(config, {}, console);
    console.line("");
    console.warning(fmt::format("the run cannot start here: {}", error.what()));
  }
  try {
    const Loader loader(loader_config_of(config), config.batch_sequences(), {});
    show_data(loader.summary(), config, console);
  } catch (const Error& error) {
    console.warning(fmt::format("the run cannot start yet: {}", error.what()));
  }
}

}  // namespace flywheel

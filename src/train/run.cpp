#include "train/run.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
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

// One run from its start, or from a checkpoint, to its end.
class Run {
 public:
  Run(const RunConfig& config, RunFolder& folder, Trainer& trainer, double peak_flops,
      ContinuePrompts continue_prompts, Console& console)
      : config_(config),
        continue_prompts_(std::move(continue_prompts)),
        checkpoints_(folder.checkpoints()),
        trainer_(trainer),
        console_(console),
        metrics_(folder.path(), trainer.steps_taken(), config.log.tensorboard),
        meter_(config.train.global_batch_tokens,
               Transformer::cost(config.model, config.data.sequence_length).flops_per_token,
               peak_flops),
        loss_outliers_(config.log.outlier_sigmas),
        norm_outliers_(config.log.outlier_sigmas),
        saved_step_(trainer.steps_taken()) {}

  // False: interrupted by a signal.
  bool train(const StopRequest& stop) {
    const std::int64_t last = *config_.train.max_steps;
    while (trainer_.steps_taken() < last && !stop.requested()) {
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
    meter_.sample_peak(peak_flops(config_.train).value);
    peak_sampled_ = Clock::now();
  }

  void write_metrics(const StepReport& report) {
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
    metrics_.write("train", report.step, scalars);
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
    metrics_.write("validation", validated_step_, scalars);
  }

  void show_samples() {
    const SamplesConfig& samples = config_.samples;
    const std::int64_t step = trainer_.steps_taken();
    const auto texts = continue_prompts_(trainer_.model(), limits_of(config_), trainer_.tokenizer(),
                                         samples, config_.train.seed);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      console_.line(
          fmt::format("step {}  sample: {}", step, one_line(samples.prompts[i] + texts[i])));
      metrics_.write_sample(step, i, samples.prompts[i], texts[i]);
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
    checkpoints_.save(state,
                      [&](const std::filesystem::path& folder) { trainer_.write_files(folder); });
    saved_step_ = state.step;
    console_.line(fmt::format("step {}  saved {} in {:.1f} s", state.step,
                              checkpoints_.path_of(state.step).string(), seconds_since(begin)));
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
  CheckpointStore& checkpoints_;
  Trainer& trainer_;
  Console& console_;
  Metrics metrics_;
  ProgressMeter meter_;
  Clock::time_point peak_sampled_ = Clock::now();
  OutlierDetector loss_outliers_;
  OutlierDetector norm_outliers_;
  std::int64_t saved_step_;
  std::int64_t validated_step_ = -1;
  double validation_loss_ = 0;
};

void show_tables(const RunConfig& config, const Backend& backend, const PeakFlops& peak,
                 Console& console) {
  console.line(console.bold("config") + (console.is_terminal() ? "" : "  (* = not the default)"));
  console.line(config_table(config, console));
  for (const std::string& table :
       {parameter_table(config.model), memory_table(config), cost_table(config, peak)}) {
    console.line("");
    console.line(table);
  }
  console.line(fmt::format("\ndevice: {}", backend.description()));
}

void show_data(const DataSummary& data, const RunConfig& config, Console& console) {
  const auto run_tokens =
      static_cast<double>(*config.train.max_steps * config.train.global_batch_tokens);
  console.line(fmt::format("data: {} tokens; the run reads {:.2f} times as many",
                           human_count(static_cast<double>(data.tokens)),
                           run_tokens / static_cast<double>(data.tokens)));
}

}  // namespace

void run_training(const RunConfig& config, const RunOptions& options, Console& console) {
  const StopRequest stop;
  RunFolder folder(config.checkpoint);
  std::optional<CheckpointState> checkpoint;
  if (options.resume) {
    checkpoint = folder.find_resume_point(config, console);
  } else if (!options.overwrite) {
    folder.require_unused();
  }
  const auto backend = make_backend(config.train);
  require(config.samples.every == 0 || options.continue_prompts, ErrorKind::Internal,
          "samples are wanted, but nothing draws them");
  const PeakFlops peak = peak_flops(config.train);
  if (!checkpoint) show_tables(config, *backend, peak, console);
  Trainer trainer(config, *backend, checkpoint ? &*checkpoint : nullptr,
                  checkpoint ? folder.checkpoints().path_of(checkpoint->step) : "");
  show_data(trainer.data(), config, console);
  if (options.overwrite) folder.checkpoints().clear();
  write_file_atomically(folder.path() / "config.json", run_config_to_json(config) + "\n");
  if (checkpoint) {
    console.line(
        fmt::format("resuming {} after step {}", folder.path().string(), checkpoint->step));
  } else if (options.resume) {
    console.line("no checkpoint yet: starting at step 1");
  }
  Run run(config, folder, trainer, peak.value, options.continue_prompts, console);
  if (run.train(stop)) {
    console.line(fmt::format("finished: {} steps, checkpoints in {}", trainer.steps_taken(),
                             folder.path().string()));
    console.line(fmt::format("look at it:\n  {} {}", options.report_program,
                             shell_quote(folder.path().string())));
  } else {
    console.line("resume with:\n  " + options.resume_command);
  }
}

void preview_run(const RunConfig& config, Console& console) {
  const auto backend = make_backend(config.train);
  show_tables(config, *backend, peak_flops(config.train), console);
  try {
    const Loader loader(loader_config_of(config), config.batch_sequences(), {});
    show_data(loader.summary(), config, console);
  } catch (const Error& error) {
    console.warning(fmt::format("the run cannot start yet: {}", error.what()));
  }
}

}  // namespace flywheel

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "infer/continue_texts.h"
#include "support/catch.h"
#include "support/test_data.h"
#include "train/checkpoint.h"
#include "train/factory.h"
#include "train/trainer.h"

namespace flywheel::test {

// What a run has become: the bytes of its files, and its losses.
struct Outcome {
  std::string model;
  std::string optimizer;
  std::vector<double> losses;
  std::vector<std::string> samples;
};

// Draws the samples of a step, if the config asks for them.
inline void sample(const RunConfig& config, Trainer& trainer, std::vector<std::string>& samples) {
  if (config.samples.every == 0) return;
  const GenerateOptions options{.sampling = {.seed = config.train.seed},
                                .tokens = config.samples.tokens};
  for (const std::string& text :
       continue_texts(trainer.model(), limits_of(config), trainer.tokenizer(),
                      config.samples.prompts, options)) {
    samples.push_back(text);
  }
}

// Trains to `last` in as many processes' worth of trainers as `stops` says: each is made anew from
// a checkpoint.
inline Outcome train_with_stops(const RunConfig& config, std::int64_t last,
                                std::vector<std::int64_t> stops = {}) {
  const TemporaryFolder folder;
  CheckpointStore store(folder.path(), config.checkpoint);
  std::optional<CheckpointState> checkpoint;
  Outcome outcome;
  stops.push_back(last);
  for (const std::int64_t stop : stops) {
    const auto backend = make_backend(config.train);
    Trainer trainer(config, *backend, checkpoint ? &*checkpoint : nullptr,
                    checkpoint ? store.path_of(checkpoint->step) : std::filesystem::path());
    while (trainer.steps_taken() < stop) {
      outcome.losses.push_back(trainer.step().loss);
      sample(config, trainer, outcome.samples);
    }
    store.save(trainer.state(),
               [&](const std::filesystem::path& path) { trainer.write_files(path); });
    checkpoint = store.verify(stop);
  }
  outcome.model = read_text_file(store.path_of(last) / "model.safetensors");
  outcome.optimizer = read_text_file(store.path_of(last) / "optimizer.safetensors");
  return outcome;
}

inline void require_same(const Outcome& a, const Outcome& b) {
  REQUIRE(a.losses == b.losses);
  REQUIRE((a.model == b.model));
  REQUIRE((a.optimizer == b.optimizer));
}

}  // namespace flywheel::test

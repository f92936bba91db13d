#include <cmath>
#include <cstring>

#include "support/catch.h"
#include "support/errors.h"
#include "support/run_config.h"
#include "support/run_with_stops.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::error_of;
using test::Outcome;
using test::require_contains;
using test::require_same;

Outcome train(const RunConfig& config, std::int64_t last,
              const std::vector<std::int64_t>& stops = {}) {
  return test::train_with_stops(config, last, stops);
}

// 41 windows in two shards, 8 a step: 12 steps cross shards all the time and two epochs.
TEST_CASE("a resumed run has the bits of one that was never stopped") {
  const test::TemporaryFolder data;
  RunConfig config = resolved(test::tiny_run(data.path()));
  SECTION("as it is") {}
  SECTION("a single micro-batch") {
    config.train.micro_batch_sequences = 8;
  }
  SECTION("documents cut apart") {
    config.data.document_mask = true;
  }
  SECTION("a permutation for each sequence") {
    config.model.attention.per_sequence = true;
  }
  SECTION("two threads, everything recomputed") {
    config.train.threads = 2;
    config.train.recompute = RecomputePolicy::Layer;
  }
  const Outcome whole = train(config, 12);
  REQUIRE(whole.losses.back() < whole.losses.front());
  require_same(train(config, 12, {6}), whole);
  require_same(train(config, 12, {3, 4, 11}), whole);
}

TEST_CASE("threads and recomputation do not change a bit") {
  const test::TemporaryFolder data;
  RunConfig config = resolved(test::tiny_run(data.path()));
  const Outcome whole = train(config, 7);
  config.train.threads = 2;
  require_same(train(config, 7, {2}), whole);
  config.train.threads = 3;
  config.train.recompute = RecomputePolicy::Mlp;
  require_same(train(config, 7), whole);
}

TEST_CASE("micro-batches see the same data and permutations") {
  const test::TemporaryFolder data;
  RunConfig config = resolved(test::tiny_run(data.path()));
  config.data.document_mask = true;
  config.model.attention.per_sequence = true;
  const Outcome whole = train(config, 6);
  for (const std::int64_t sequences : {1, 2, 8}) {
    config.train.micro_batch_sequences = sequences;
    const Outcome split = train(config, 6);
    for (std::size_t i = 0; i < whole.losses.size(); ++i) {
      REQUIRE(split.losses[i] == Approx(whole.losses[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("samples do not change a bit of the run, and are the same after a resume") {
  const test::TemporaryFolder data;
  RunConfig config = resolved(test::tiny_run(data.path()));
  SECTION("as it is") {}
  SECTION("a permutation for each sequence, everything recomputed") {
    config.model.attention.per_sequence = true;
    config.train.recompute = RecomputePolicy::Layer;
  }
  const Outcome without = train(config, 6);
  config.samples = {.every = 1, .prompts = {"", "ab", "long enough"}, .tokens = 12};
  const Outcome with = train(config, 6);
  require_same(with, without);
  require_same(train(config, 6, {2, 5}), without);
  REQUIRE(with.samples.size() == 6 * 3);
  REQUIRE(with.samples == train(config, 6, {3}).samples);
  REQUIRE(with.samples[0] != with.samples[15]);
}

TEST_CASE("other data, tokenizers and models are noticed on resumption") {
  const test::TemporaryFolder data;
  const RunConfig config = resolved(test::tiny_run(data.path()));
  const auto backend = make_backend(config.train);
  CheckpointState state = Trainer(config, *backend).state();
  test::write_byte_shard(data.path() / "train_1.bin", 5, 9, 75);
  require_contains(error_of([&] { Trainer(config, *backend, &state, ""); }),
                   "the token files are not those that the run began with");
  test::write_byte_shard(data.path() / "train_1.bin", 2, 9, 75);
  state.tokenizer_fingerprint = "00";
  require_contains(error_of([&] { Trainer(config, *backend, &state, ""); }),
                   "not the tokenizer that the run began with (fingerprint 00 in the checkpoint");
  RunConfig small = config;
  small.model.vocab_size = 256;
  require_contains(error_of([&] { Trainer(small, *backend); }),
                   "model.vocab_size is 256, but the tokenizer byte has 257 ids");
}

std::vector<float> weights_of(Trainer& trainer, Backend& backend) {
  std::vector<float> all;
  for (const Parameter& parameter : trainer.model().parameters()) {
    const auto begin = static_cast<std::ptrdiff_t>(all.size());
    all.resize(all.size() + static_cast<std::size_t>(parameter.value.elements()));
    backend.download(&*(all.begin() + begin), parameter.value);
  }
  return all;
}

void poison(Trainer& trainer, Backend& backend, const std::string& name) {
  for (const Parameter& parameter : trainer.model().parameters()) {
    if (parameter.name != name) continue;
    const float nan = std::nanf("");
    backend.upload(parameter.value.reshaped({parameter.value.elements()}).rows(0, 1), &nan);
    return;
  }
  FAIL("no parameter " << name);
}

// A NaN keeps a == b from holding, so weights are compared as bytes.
bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("a gradient that is not finite never reaches the weights") {
  const test::TemporaryFolder data;
  RunConfig config = resolved(test::tiny_run(data.path()));
  const auto backend = make_backend(config.train);
  SECTION("stop") {
    Trainer trainer(config, *backend);
    trainer.step();
    poison(trainer, *backend, "model.norm.weight");
    const auto before = weights_of(trainer, *backend);
    const std::string error = error_of([&] { trainer.step(); });
    require_contains(error, "data: step 2: the loss is ");
    require_contains(error, "(first in model.embed_tokens.weight); the weights were not updated");
    REQUIRE(same_bytes(weights_of(trainer, *backend), before));
    REQUIRE(trainer.steps_taken() == 1);
  }
  SECTION("skip") {
    config.train.non_finite = NonFinitePolicy::Skip;
    Trainer trainer(config, *backend);
    poison(trainer, *backend, "model.layers.0.mlp.up_proj.weight");
    const auto before = weights_of(trainer, *backend);
    const StepReport report = trainer.step();
    REQUIRE(report.skipped);
    REQUIRE(trainer.step().skipped);
    REQUIRE(same_bytes(weights_of(trainer, *backend), before));
    REQUIRE(trainer.skipped_steps() == 2);
    REQUIRE(trainer.state().data_windows == 16);
  }
  SECTION("too high a learning rate") {
    config.optimizer.learning_rate = 1e30;
    config.schedule.warmup_steps = 0;
    Trainer trainer(config, *backend);
    trainer.step();
    const auto before = weights_of(trainer, *backend);
    for (const float weight : before) REQUIRE(std::isfinite(weight));
    require_contains(error_of([&] { trainer.step(); }), "Lower optimizer.learning_rate");
    REQUIRE(same_bytes(weights_of(trainer, *backend), before));
  }
}

TEST_CASE("validation sees the same slice and changes nothing") {
  const test::TemporaryFolder data;
  const RunConfig config = resolved(test::tiny_run(data.path()));
  const auto backend = make_backend(config.train);
  Trainer trainer(config, *backend);
  const double first = trainer.validate();
  REQUIRE(first == Approx(std::log(257.0)).epsilon(0.05));
  REQUIRE(trainer.validate() == first);
  const double loss = trainer.step().loss;
  Trainer other(config, *backend);
  REQUIRE(other.step().loss == loss);
  REQUIRE(trainer.validate() == other.validate());
  REQUIRE(trainer.validate() != first);
}

}  // namespace
}  // namespace flywheel

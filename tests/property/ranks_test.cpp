// Several ranks, here threads, train as one does.
#include "core/file_io.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/local_ranks.h"
#include "support/run_config.h"
#include "support/test_data.h"
#include "support/text.h"
#include "train/checkpoint.h"
#include "train/factory.h"
#include "train/trainer.h"

namespace flywheel {
namespace {

constexpr std::int64_t kSteps = 6;

RunConfig ranks_run(const std::filesystem::path& folder) {
  RunConfig config = test::tiny_run(folder);
  config.data.document_mask = true;
  config.model.attention.per_sequence = true;
  config.train.threads = 1;
  return resolved(config);
}

struct Outcome {
  std::vector<double> losses;
  double validation = 0;
};

// Where a trial saves.
CheckpointStore make_store(const std::filesystem::path& folder, const RunConfig& config) {
  create_folders(folder);
  return {folder, config.checkpoint};
}

// The first rank saves the last step.
Outcome train(const RunConfig& config, std::int64_t ranks, CheckpointStore& store,
              std::int64_t from = 0) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  test::run_local_ranks(ranks, [&](Communicator& communicator) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(communicator.rank())];
    const auto backend = make_backend(config.train);
    std::optional<CheckpointState> checkpoint;
    if (from > 0) checkpoint = store.verify(from);
    Trainer trainer(config, *backend, communicator, checkpoint ? &*checkpoint : nullptr,
                    store.path_of(from));
    while (trainer.steps_taken() < from + kSteps) outcome.losses.push_back(trainer.step().loss);
    outcome.validation = trainer.validate();
    const OptimizerState optimizer = trainer.optimizer_state();
    if (communicator.rank() != 0) return;
    store.save(trainer.state(),
               [&](const std::filesystem::path& path) { trainer.write_files(path, optimizer); });
  });
  for (const Outcome& outcome : outcomes) {
    REQUIRE(outcome.losses == outcomes[0].losses);
    REQUIRE(outcome.validation == outcomes[0].validation);
  }
  return outcomes[0];
}

void require_close(const Outcome& a, const Outcome& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    REQUIRE(a.losses[i] == Approx(b.losses[i]).epsilon(1e-5));
  }
  REQUIRE(a.validation == Approx(b.validation).epsilon(1e-5));
}

TEST_CASE("any number of ranks reads the same data and computes the same losses", "[ranks]") {
  const test::TemporaryFolder data;
  RunConfig config = ranks_run(data.path());
  const test::TemporaryFolder folder;
  CheckpointStore one = make_store(folder.path() / "one", config);
  const Outcome alone = train(config, 1, one);
  REQUIRE(alone.losses.back() < alone.losses.front());
  for (const bool sharded : {true, false}) {
    config.parallel.shard_optimizer = sharded;
    for (const std::int64_t ranks : {2, 4, 8}) {
      INFO(ranks << " ranks, sharded: " << sharded);
      const auto run = folder.path() / fmt::format("{}_{}", ranks, sharded);
      CheckpointStore store = make_store(run, config);
      require_close(train(config, ranks, store), alone);
    }
  }
}

TEST_CASE("a checkpoint of any number of ranks goes on with another", "[ranks]") {
  const test::TemporaryFolder data;
  const RunConfig config = ranks_run(data.path());
  const test::TemporaryFolder folder;
  CheckpointStore one = make_store(folder.path() / "one", config);
  train(config, 1, one);
  const Outcome expected = train(config, 1, one, kSteps);
  CheckpointStore other = make_store(folder.path() / "other", config);
  train(config, 4, other);
  require_close(train(config, 2, other, kSteps), expected);
  CheckpointStore last = make_store(folder.path() / "last", config);
  train(config, 2, last);
  require_close(train(config, 1, last, kSteps), expected);
}

TEST_CASE("ranks that cannot share a batch say so", "[ranks]") {
  const test::TemporaryFolder data;
  const RunConfig config = ranks_run(data.path());
  const test::TemporaryFolder folder;
  CheckpointStore store = make_store(folder.path(), config);
  test::require_contains(test::error_of([&] { train(config, 3, store); }),
                         "train.global_batch_tokens: 8 sequences of");
}

TEST_CASE("parts divide a tensor", "[ranks]") {
  for (const std::int64_t elements : {0, 1, 15, 16, 17, 100, 4096, 100'003}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 7}) {
      std::int64_t end = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Part part = part_of(elements, rank, ranks);
        REQUIRE(part.begin == end);
        REQUIRE((part.begin % 16 == 0 || part.elements() == 0));
        end = part.end;
      }
      REQUIRE(end == elements);
    }
  }
}

}  // namespace
}  // namespace flywheel

// Several emulated GPUs, a process each, train as one does.
#include <cmath>
#include <sstream>

#include "core/file_io.h"
#include "simt/emulator/streams.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/forked_ranks.h"
#include "support/run_config.h"
#include "support/test_data.h"
#include "support/text.h"
#include "train/checkpoint.h"
#include "train/factory.h"
#include "train/trainer.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr std::int64_t kSteps = 6;

RunConfig gpu_run(const std::filesystem::path& data, Precision precision) {
  RunConfig config = resolved(tiny_run(data));
  config.train.device = DeviceChoice::Cuda;
  config.train.precision = precision;
  config.parallel.timeout_seconds = 60;
  return config;
}

// The losses of the steps after `from` up to `to`, bit by bit, then that of the validation set. The
// state of step `to` goes to `folder`.
std::string train(const RunConfig& config, const std::filesystem::path& folder, std::int64_t from,
                  std::int64_t to) {
  const auto backend = make_backend(config.train);
  const auto ranks = make_communicator(config, *backend);
  CheckpointStore store(folder, config.checkpoint);
  std::optional<CheckpointState> checkpoint;
  if (from > 0) checkpoint = store.verify(from);
  Trainer trainer(config, *backend, *ranks, checkpoint ? &*checkpoint : nullptr,
                  from > 0 ? store.path_of(from) : std::filesystem::path());
  std::string losses;
  while (trainer.steps_taken() < to) losses += fmt::format("{:.17g} ", trainer.step().loss);
  losses += fmt::format("{:.17g}", trainer.validate());
  const OptimizerState optimizer = trainer.optimizer_state();
  if (ranks->rank() == 0) {
    store.save(trainer.state(),
               [&](const std::filesystem::path& path) { trainer.write_files(path, optimizer); });
  }
  double all_saved = 0;
  ranks->sum(std::span(&all_saved, 1));
  return losses;
}

// How the emulator runs in the ranks' processes.
struct Emulation {
  test::Schedule schedule;
  bool defer_streams = false;
};

// In `ranks` processes, which must say the same.
std::string train_ranks(std::int64_t ranks, const RunConfig& config,
                        const std::filesystem::path& folder, std::int64_t from, std::int64_t to,
                        const Emulation& emulation = {}) {
  create_folders(folder);
  const auto outcomes = run_forked_ranks(ranks, [&](std::int64_t rank) {
    simt::config.workers = 1;
    simt::config.defer_streams = emulation.defer_streams;
    test::Schedule schedule = emulation.schedule;
    schedule.seed += static_cast<std::uint64_t>(rank);
    const ScheduleScope scope(schedule);
    return train(config, folder, from, to);
  });
  for (const RankOutcome& outcome : outcomes) {
    INFO(outcome.text);
    REQUIRE_FALSE(outcome.failed);
    REQUIRE(outcome.text == outcomes[0].text);
  }
  return outcomes[0].text;
}

std::vector<double> numbers(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<double>(in), {}};
}

double distance(const std::string& a, const std::string& b) {
  const std::vector<double> x = numbers(a);
  const std::vector<double> y = numbers(b);
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

std::string files_of(const std::filesystem::path& folder, const RunConfig& config,
                     std::int64_t step) {
  const CheckpointStore store(folder, config.checkpoint);
  return read_text_file(store.path_of(step) / "model.safetensors") +
         read_text_file(store.path_of(step) / "optimizer.safetensors");
}

// A rank as the communicator's tests see it.
struct Rank {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> ranks;
  std::unique_ptr<DeviceMemory> memory;
  TensorView x;

  Rank(std::int64_t timeout_seconds, std::int64_t elements) {
    simt::config.workers = 1;
    RunConfig config;
    config.train.device = DeviceChoice::Cuda;
    config.parallel.timeout_seconds = timeout_seconds;
    backend = make_backend(config.train);
    ranks = make_communicator(config, *backend);
    memory = backend->allocate(elements * size_of(DType::F32), "a test's tensor");
    x = TensorView(memory->data(), DType::F32, {elements}, DeviceKind::Cuda);
  }
  void upload(const std::vector<float>& values) { backend->upload(x, values.data()); }
  std::vector<float> download() {
    std::vector<float> values(static_cast<std::size_t>(x.elements()));
    backend->download(values.data(), x);
    return values;
  }
};

}  // namespace

TEST_CASE("two GPUs give the losses of one", "[simt]") {
  const TemporaryFolder data;
  const TemporaryFolder runs;
  const RunConfig exact = gpu_run(data.path(), Precision::Float32);
  const std::string alone = train_ranks(1, exact, runs.path() / "one", 0, kSteps);
  REQUIRE(numbers(alone)[kSteps - 1] < numbers(alone)[0]);
  RunConfig whole = exact;
  whole.parallel.shard_optimizer = false;
  for (const auto& [name, config] : {std::pair("sharded", exact), std::pair("whole", whole)}) {
    CAPTURE(name);
    CHECK(distance(train_ranks(2, config, runs.path() / name, 0, kSteps), alone) < 1e-4);
  }
  // Rounding to bf16 makes a difference of its own, and that to one rank is no greater.
  const RunConfig rough = gpu_run(data.path(), Precision::Bfloat16);
  const std::string one = train_ranks(1, rough, runs.path() / "one_rough", 0, kSteps);
  const std::string two = train_ranks(2, rough, runs.path() / "two_rough", 0, kSteps);
  CHECK(distance(two, one) <= 2 * distance(one, alone));
}

TEST_CASE("two GPUs give the same bits under any schedule of threads and streams", "[simt]") {
  const TemporaryFolder data;
  const TemporaryFolder runs;
  for (const Precision precision : {Precision::Float32, Precision::Bfloat16}) {
    const RunConfig config = gpu_run(data.path(), precision);
    const auto train_two = [&](const std::string& name, const Emulation& emulation) {
      const auto folder = runs.path() / fmt::format("{}_{}", name, static_cast<int>(precision));
      const std::string losses = train_ranks(2, config, folder, 0, 2, emulation);
      return losses + files_of(folder, config, 2);
    };
    const std::string expected = train_two("plain", {});
    for (const test::Schedule& schedule : unruly_schedules(1)) {
      CAPTURE(schedule.name());
      CHECK((train_two(schedule.name(), {schedule, true}) == expected));
    }
  }
}

TEST_CASE("checkpoints of two GPUs go on with two, and with one", "[simt]") {
  const TemporaryFolder data;
  const TemporaryFolder runs;
  const auto precision = GENERATE(Precision::Float32, Precision::Bfloat16);
  const RunConfig config = gpu_run(data.path(), precision);
  const auto whole = runs.path() / "whole";
  const auto parts = runs.path() / "parts";
  const std::string expected = train_ranks(2, config, whole, 0, kSteps);
  train_ranks(2, config, parts, 0, 3);
  const std::string rest = train_ranks(2, config, parts, 3, kSteps);
  CHECK(expected.ends_with(rest));
  CHECK((files_of(parts, config, kSteps) == files_of(whole, config, kSteps)));
  const std::string alone = train_ranks(1, config, whole, kSteps, kSteps + 3);
  const std::string together = train_ranks(2, config, parts, kSteps, kSteps + 3);
  CHECK(distance(alone, together) < (precision == Precision::Float32 ? 1e-4 : 3e-2));
}

TEST_CASE("a rank waits for its GPU once in a step", "[simt]") {
  const TemporaryFolder data;
  const RunConfig config = gpu_run(data.path(), GENERATE(Precision::Float32, Precision::Bfloat16));
  const auto outcomes = run_forked_ranks(2, [&](std::int64_t) {
    simt::config.workers = 1;
    simt::config.defer_streams = true;
    const auto backend = make_backend(config.train);
    const auto ranks = make_communicator(config, *backend);
    Trainer trainer(config, *backend, *ranks);
    trainer.step();
    const std::uint64_t before = simt::host_waits();
    for (int step = 0; step < 3; ++step) trainer.step();
    return std::to_string(simt::host_waits() - before);
  });
  for (const RankOutcome& outcome : outcomes) CHECK(outcome.text == "3");
}

TEST_CASE("collectives sum and gather parts that are not equal", "[simt]") {
  for (const std::int64_t elements : {1, 15, 32, 100, 4096}) {
    const auto outcomes = run_forked_ranks(3, [&](std::int64_t rank) {
      Rank r(60, elements);
      std::vector<float> values(static_cast<std::size_t>(elements));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(rank + 1) * static_cast<float>(i + 1);
      }
      r.upload(values);
      r.ranks->all_reduce(r.x);
      r.ranks->join();
      const std::vector<float> sums = r.download();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (sums[i] != 6 * static_cast<float>(i + 1)) return fmt::format("{}: {}", i, sums[i]);
      }
      return std::string("right");
    });
    for (const RankOutcome& outcome : outcomes) CHECK(outcome.text == "right");
  }
}

TEST_CASE("a rank that does not come to a collective is named", "[simt]") {
  const bool defer = GENERATE(false, true);
  const auto outcomes = run_forked_ranks(3, [&](std::int64_t rank) {
    simt::config.defer_streams = defer;
    Rank r(3, 64);
    if (rank == 1) {
      sleep(8);
      return std::string();
    }
    r.ranks->reduce_scatter(r.x);
    r.ranks->join();
    r.backend->synchronize();
    return std::string("went on");
  });
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(outcomes[rank].failed);
    require_contains(outcomes[rank].text,
                     fmt::format("rank {}: CUDA device {}, SIMT emulator", rank, rank));
    require_contains(outcomes[rank].text, "reduce_scatter");
    require_contains(outcomes[rank].text, "for rank 1; resume from the last checkpoint");
  }
}

TEST_CASE("a rank that dies ends the others at once", "[simt]") {
  const auto outcomes = run_forked_ranks(3, [&](std::int64_t rank) {
    Rank r(60, 64);
    if (rank == 2) _exit(1);
    r.ranks->all_gather(r.x);
    r.ranks->join();
    r.backend->synchronize();
    return std::string("went on");
  });
  for (const std::size_t rank : {0U, 1U}) {
    require_contains(outcomes[rank].text, "for rank 2; resume from the last checkpoint");
  }
}

TEST_CASE("ranks whose counts differ are told", "[simt]") {
  const auto outcomes = run_forked_ranks(2, [&](std::int64_t rank) {
    Rank r(60, 64 + 32 * rank);
    r.ranks->all_gather(r.x);
    r.ranks->join();
    r.backend->synchronize();
    return std::string("went on");
  });
  for (const RankOutcome& outcome : outcomes) CHECK(outcome.failed);
  const std::string both = outcomes[0].text + outcomes[1].text;
  require_contains(both, "ncclAllGather of 32 elements");
  require_contains(both, "ncclAllGather of 48 elements");
}

// The emulator's own word, where no watchdog asks.
TEST_CASE("the emulated NCCL names a rank that never comes", "[simt]") {
  const auto outcomes = run_forked_ranks(2, [&](std::int64_t rank) {
    simt::config.patience_seconds = 0.5;
    Rank r(60, 64);
    if (rank == 0) {
      r.ranks->all_gather(r.x);
      r.ranks->join();
      r.backend->synchronize();
    }
    sleep(3);
    return std::string();
  });
  require_contains(outcomes[0].text, "ncclAllGather of 32 elements");
  require_contains(outcomes[0].text, "rank 1 has not come");
}

TEST_CASE("ranks that a launcher's variables put on the CPU are refused", "[simt]") {
  const auto outcomes = run_forked_ranks(2, [&](std::int64_t) {
    const RunConfig config;
    const auto backend = make_backend(config.train);
    make_communicator(config, *backend);
    return std::string();
  });
  require_contains(outcomes[0].text, "ranks on the CPU are started by mpirun");
}

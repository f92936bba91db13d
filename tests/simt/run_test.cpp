// Runs with train.device cuda on the emulated GPU.
#include "backend/ops.h"
#include "cuda/cuda_backend.h"
#include "simt/emulator/config.h"
#include "simt/emulator/streams.h"
#include "support/errors.h"
#include "support/observed_backend.h"
#include "support/run_config.h"
#include "support/run_with_stops.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

RunConfig gpu_run(const TemporaryFolder& data, Precision precision) {
  RunConfig config = resolved(tiny_run(data.path()));
  config.train.device = DeviceChoice::Cuda;
  config.train.precision = precision;
  return config;
}

}  // namespace

TEST_CASE("a run on the GPU that was stopped has the bits of one that was not", "[simt]") {
  const TemporaryFolder data;
  const RunConfig config = gpu_run(data, GENERATE(Precision::Float32, Precision::Bfloat16));
  const Outcome whole = train_with_stops(config, 6);
  REQUIRE(whole.losses.back() < whole.losses.front());
  require_same(train_with_stops(config, 6, {2, 3}), whole);
}

TEST_CASE("a skipped step does not change how a resumed run in bf16 rounds", "[simt]") {
  const TemporaryFolder data;
  RunConfig config = gpu_run(data, Precision::Bfloat16);
  const auto backend = make_backend(config.train);
  Trainer trainer(config, *backend);
  trainer.step();
  CheckpointState state = trainer.state();
  state.step = 5;
  state.skipped_steps = 4;
  const TemporaryFolder folder;
  trainer.write_files(folder.path());
  Trainer resumed(config, *backend, &state, folder.path());
  for (std::size_t i = 0; i < trainer.model().parameters().size(); ++i) {
    const TensorView copy = trainer.model().parameters()[i].rounded;
    std::vector<std::uint16_t> before(static_cast<std::size_t>(copy.elements()));
    std::vector<std::uint16_t> after(before.size());
    backend->download(before.data(), copy);
    backend->download(after.data(), resumed.model().parameters()[i].rounded);
    REQUIRE(before == after);
  }
}

TEST_CASE("the host waits for the GPU once in a step", "[simt]") {
  const TemporaryFolder data;
  const RunConfig config = gpu_run(data, GENERATE(Precision::Float32, Precision::Bfloat16));
  const double loss = train_with_stops(config, 1).losses.front();
  simt::config.defer_streams = true;
  {
    const auto backend = make_backend(config.train);
    Trainer trainer(config, *backend);
    for (int step = 0; step < 3; ++step) {
      const std::uint64_t before = simt::host_waits();
      const StepReport report = trainer.step();
      // Plans of attention get their memory in the first step.
      if (step > 0) CHECK(simt::host_waits() - before == 1);
      if (step == 0) CHECK(report.loss == loss);
    }
  }
  simt::config = {};
}

TEST_CASE("passes that are queued as graphs compute the same bits", "[simt]") {
  const TemporaryFolder data;
  RunConfig config = gpu_run(data, GENERATE(Precision::Float32, Precision::Bfloat16));
  config.train.micro_batch_sequences = 2;
  config.data.document_mask = true;  // lengths, and with them the grids, differ from pass to pass
  const Outcome plain = train_with_stops(config, 3);
  config.train.cuda_graphs = true;
  simt::config.defer_streams = GENERATE(false, true);
  const std::uint64_t before = simt::graph_launches();
  require_same(train_with_stops(config, 3), plain);
  const std::int64_t passes = 3 * config.batch_sequences() / 2;
  CHECK(simt::graph_launches() - before == static_cast<std::uint64_t>(passes - 1));
  simt::config = {};
}

TEST_CASE("a pass that waits cannot be queued as a graph", "[simt]") {
  const auto backend = make_cuda_backend(0, {.graphs = true});
  const auto memory = backend->allocate(4, "a number");
  const TensorView x(memory->data(), DType::F32, {1}, DeviceKind::Cuda);
  const auto fill = [&](float value) { ops::fill(*backend, {.x = x, .value = value}); };
  backend->queue_pass([&] { fill(1); });
  CHECK(contains(error_of([&] {
                   backend->queue_pass([&] {
                     fill(2);
                     backend->synchronize();
                   });
                 }),
                 "captured"));
  backend->queue_pass([&] { fill(3); });
  float value = 0;
  backend->download(&value, x);
  CHECK(value == 3);
}

TEST_CASE("a model in bf16 draws samples and validates while it is trained", "[simt]") {
  const TemporaryFolder data;
  RunConfig config = gpu_run(data, Precision::Bfloat16);
  config.samples = {.every = 1, .prompts = {"", "ab"}, .tokens = 4};
  const Outcome outcome = train_with_stops(config, 2);
  REQUIRE(outcome.samples.size() == 4);
  const auto backend = make_backend(config.train);
  Trainer in_bf16(config, *backend);
  config.train.precision = Precision::Float32;
  Trainer in_float32(config, *backend);
  CHECK(in_bf16.validate() == Approx(in_float32.validate()).epsilon(1e-2));
}

TEST_CASE("the memory of a model in bf16 is planned, and allocated as planned", "[simt]") {
  const TemporaryFolder data;
  const auto activations_in = [&](Precision precision) {
    const RunConfig config = gpu_run(data, precision);
    const auto gpu = make_backend(config.train);
    ObservedBackend backend(*gpu);
    const Transformer model(config.model, backend, limits_of(config));
    std::int64_t planned = 0;
    for (const MemoryLine& line : Transformer::memory(config.model, limits_of(config))) {
      planned += line.bytes;
    }
    std::int64_t allocated = 0;
    std::int64_t activations = 0;
    for (const auto& [name, bytes] : backend.allocations()) {
      allocated += bytes;
      if (name == "activations") activations = bytes;
    }
    CHECK(allocated == planned);
    return activations;
  };
  // Statistics of rows, losses and tokens keep their size.
  CHECK(10 * activations_in(Precision::Bfloat16) < 6 * activations_in(Precision::Float32));
}

TEST_CASE("an unknown GPU has no peak", "[simt]") {
  TrainConfig config;
  config.device = DeviceChoice::Cuda;
  CHECK(peak_flops(config).value == 0);
}

#include "train/factory.h"

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "cpu/peak_flops.h"
#include "cuda/cuda_backend.h"
#include "dist/mpi_communicator.h"

namespace flywheel {
namespace {

// The first GPU that CUDA_VISIBLE_DEVICES leaves.
constexpr int kGpu = 0;

PeakFlops gpu_peak(Precision precision) {
  if (precision == Precision::Bfloat16) {
    return {cuda_peak_flops(kGpu, DType::BF16), "dense bf16 products, by the data sheet"};
  }
  return {cuda_peak_flops(kGpu, DType::F32), "float32 without TF32, by the data sheet"};
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const RunConfig& config) {
  if (!started_by_mpi()) return std::make_unique<SingleCommunicator>();
  require(config.train.device == DeviceChoice::Cpu, ErrorKind::Config,
          "train.device: several ranks share a run only on the CPU so far; expected cpu");
  return make_mpi_communicator(std::chrono::seconds(config.parallel.timeout_seconds));
}

std::unique_ptr<Backend> make_backend(const TrainConfig& config) {
  if (config.device == DeviceChoice::Cpu) {
    return make_cpu_backend(static_cast<int>(config.threads));
  }
  try {
    return make_cuda_backend(kGpu, {config.matmul_algorithms, config.cuda_graphs});
  } catch (const Error& error) {
    fail(error.kind(), "train.device: cuda: {}", error.what());
  }
}

PeakFlops peak_flops(const TrainConfig& config) {
  if (config.device == DeviceChoice::Cuda) return gpu_peak(config.precision);
  return {measured_peak_flops(static_cast<int>(config.threads)),
          "multiply-adds in float32, measured"};
}

}  // namespace flywheel

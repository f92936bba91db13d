#include "train/factory.h"

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "cpu/peak_flops.h"
#include "cuda/cuda_backend.h"
#include "cuda/nccl_communicator.h"
#include "dist/launch.h"
#include "dist/mpi_communicator.h"
#include "dist/tcp_hosts.h"

namespace flywheel {
namespace {

// Among those that CUDA_VISIBLE_DEVICES leaves.
int gpu() {
  return static_cast<int>(find_launch().local_rank);
}

PeakFlops gpu_peak(Precision precision) {
  if (precision == Precision::Bfloat16) {
    return {cuda_peak_flops(gpu(), DType::BF16), "dense bf16 products, by the data sheet"};
  }
  return {cuda_peak_flops(gpu(), DType::F32), "float32 without TF32, by the data sheet"};
}

}  // namespace

std::unique_ptr<Backend> make_backend(const TrainConfig& config) {
  if (config.device == DeviceChoice::Cpu) {
    return make_cpu_backend(static_cast<int>(config.threads));
  }
  try {
    return make_cuda_backend(gpu(), {config.matmul_algorithms, config.cuda_graphs});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Device) throw;  // of a file or a variable, which it names
    fail(ErrorKind::Device, "train.device: cuda: {}", error.what());
  }
}

std::unique_ptr<Communicator> make_communicator(const RunConfig& config, Backend& backend) {
  const Launch launch = find_launch();
  const std::chrono::seconds timeout(config.parallel.timeout_seconds);
  if (launch.by == Launch::By::Alone) return std::make_unique<SingleCommunicator>();
  const bool by_mpi = launch.by == Launch::By::Mpi;
  if (config.train.device == DeviceChoice::Cuda) {
    return make_nccl_communicator(
        backend, by_mpi ? make_mpi_communicator(timeout) : join_hosts(launch, timeout), timeout);
  }
  require(by_mpi, ErrorKind::Config,
          "WORLD_SIZE={}: ranks on the CPU are started by mpirun; unset it, or take train.device "
          "cuda",
          launch.ranks);
  return make_mpi_communicator(timeout);
}

std::string launch_prefix(std::int64_t ranks) {
  if (ranks == 1) return "";
  return find_launch().by == Launch::By::Mpi ? fmt::format("mpirun -n {} ", ranks)
                                             : "(on every rank, as before) ";
}

PeakFlops peak_flops(const TrainConfig& config) {
  if (config.device == DeviceChoice::Cuda) return gpu_peak(config.precision);
  return {measured_peak_flops(static_cast<int>(config.threads)),
          "multiply-adds in float32, measured"};
}

}  // namespace flywheel

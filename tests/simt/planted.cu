#include "simt/planted.h"

#include <cmath>
#include <vector>

#include "cuda/device/intrinsics.h"

namespace flywheel::test {
namespace {

using cuda::bf16;
using cuda::dynamic_shared;
using cuda::lane_id;
using cuda::launch;
using cuda::static_shared;
using cuda::warp_id;

template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    void* memory = nullptr;
    cudaMalloc(&memory, count_ * sizeof(T));
    data_ = static_cast<T*>(memory);
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Compares the output and collects the emulator's report.
template <class T>
Outcome outcome_of(const Buffer<T>& output, const std::vector<T>& expected) {
  const cudaError_t status = cudaDeviceSynchronize();
  Outcome outcome;
  if (status != cudaSuccess) outcome.report = cudaGetErrorString(status);
  cudaGetLastError();
  simt::take_error();
  outcome.right = output.read() == expected;
  return outcome;
}

constexpr int kThreads = 128;

struct Partials {
  float of[kThreads / 32];
};

template <Fault kFault>
__global__ void block_sum_kernel(float* out, const float* in) {
  auto& partials = static_shared<Partials>();
  float* scratch = &dynamic_shared<float>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kThreads / 32) partials.of[thread] = 0;
  __syncthreads();
  if (kFault == Fault::kWritesPastShared && thread == 70) scratch[kThreads] = 1;
  if (kFault != Fault::kReadsUnwritten || thread < 64) scratch[thread] = in[thread];
  const float sum = cuda::warp_sum(scratch[thread]);
  if (lane_id() == 0) partials.of[warp_id() + (kFault == Fault::kIndexPastArray ? 1 : 0)] = sum;
  if (kFault == Fault::kReturnsEarly && warp_id() == 2) return;
  if (kFault == Fault::kDivergentBarrier && warp_id() >= 2) {
    __syncthreads();
  } else if (kFault != Fault::kNoBarrier) {
    __syncthreads();
  }
  float total = 0;
  for (const float partial : partials.of) total += partial;
  out[kFault == Fault::kWritesPastOutput ? thread + 1 : thread] = total;
}

template <Fault kFault>
Outcome run_block_sum() {
  std::vector<float> values(kThreads);
  for (int i = 0; i < kThreads; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const Buffer<float> in(values);
  const Buffer<float> out(std::vector<float>(kThreads, -1));
  launch<block_sum_kernel<kFault>>(1, kThreads, kThreads * sizeof(float), nullptr, out.get(),
                                   in.get());
  return outcome_of(out, std::vector<float>(kThreads, kThreads * (kThreads - 1) / 2));
}

constexpr int kColumns = 4 * kThreads;  // a thread copies 16 bytes of a row

struct TwoRows {
  float row[2][kColumns];
};

// Sums the rows of [rows, kColumns], reading each row from the buffer reversed so that a thread
// needs what another copied.
template <Fault kFault>
__global__ void pipeline_kernel(float* out, const float* in, int rows) {
  auto& buffer = static_shared<TwoRows>();
  const int column = static_cast<int>(threadIdx.x) * 4;
  const auto fetch = [&](int row, int to) {
    cp_async_16(&buffer.row[to][column], in + row * kColumns + column);
  };
  fetch(0, 0);
  cp_async_commit();
  float sums[4] = {};
  for (int row = 0; row < rows; ++row) {
    const int live = row % 2;
    if (row + 1 < rows) fetch(row + 1, kFault == Fault::kFillsLiveBuffer ? live : 1 - live);
    cp_async_commit();
    cp_async_wait<kFault == Fault::kWaitsOneShort ? 2 : 1>();
    if constexpr (kFault != Fault::kNoBarrierAfterWait) __syncthreads();
    for (int i = 0; i < 4; ++i) sums[i] += buffer.row[live][kColumns - 1 - column - i];
    if constexpr (kFault != Fault::kNoBarrierAtLoopEnd) __syncthreads();
  }
  for (int i = 0; i < 4; ++i) out[kColumns - 1 - column - i] = sums[i];
}

template <Fault kFault>
Outcome run_pipeline() {
  constexpr int kRows = 7;
  std::vector<float> values(kRows * kColumns);
  std::vector<float> expected(kColumns, 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 7 % 1000);
    expected[i % kColumns] += values[i];
  }
  const Buffer<float> in(values);
  const Buffer<float> out(std::vector<float>(kColumns, -1));
  launch<pipeline_kernel<kFault>>(1, kThreads, 0, nullptr, out.get(), in.get(), kRows);
  return outcome_of(out, expected);
}

struct ProductTiles {
  alignas(16) bf16 a[16][24];  // 16 columns and a padding that keeps rows in different banks
  alignas(16) bf16 b[16][24];
};

// out [16, 16] = a [16, 16] b [16, 16].
template <Fault kFault>
__global__ void product_kernel(float* out, const float* a, const float* b) {
  auto& tiles = static_shared<ProductTiles>();
  const int lane = lane_id();
  for (int i = lane; i < 256; i += 32) {
    tiles.a[i / 16][i % 16] = cuda::from_float<bf16>(a[i]);
    tiles.b[i / 16][i % 16] = cuda::from_float<bf16>(b[i]);
  }
  __syncwarp();
  std::uint32_t left[4];
  std::uint32_t right[4];
  ldmatrix_x4(left, &tiles.a[lane % 16][lane / 16 * 8]);
  if constexpr (kFault == Fault::kNotTransposed) {
    ldmatrix_x4(right, &tiles.b[lane % 16][lane / 16 * 8]);
  } else {
    ldmatrix_x4_trans(right, &tiles.b[lane % 16][lane / 16 * 8]);
  }
  if constexpr (kFault == Fault::kSwapsFragments) std::swap(left[1], left[2]);
  for (int half = 0; half < 2; ++half) {
    float sums[4] = {};
    mma_m16n8k16(sums, left, {right[2 * half], right[2 * half + 1]}, sums);
    for (int i = 0; i < 4; ++i) {
      out[(lane / 4 + i / 2 * 8) * 16 + half * 8 + lane % 4 * 2 + i % 2] = sums[i];
    }
  }
}

template <Fault kFault>
Outcome run_product() {
  std::vector<float> a(256);
  std::vector<float> b(256);
  std::vector<float> expected(256, 0.0F);
  for (std::size_t i = 0; i < 256; ++i) {
    a[i] = static_cast<float>(i * 5 % 17) - 8;
    b[i] = static_cast<float>(i * 3 % 13) - 6;
  }
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t k = 0; k < 16; ++k) expected[i] += a[i / 16 * 16 + k] * b[k * 16 + i % 16];
  }
  const Buffer<float> left(a);
  const Buffer<float> right(b);
  const Buffer<float> out(std::vector<float>(256, -1));
  launch<product_kernel<kFault>>(1, 32, 0, nullptr, out.get(), left.get(), right.get());
  return outcome_of(out, expected);
}

struct WarpValues {
  int of[64];
};

template <Fault kFault>
__global__ void warp_reverse_kernel(int* out) {
  auto& values = static_shared<WarpValues>();
  const int thread = static_cast<int>(threadIdx.x);
  values.of[thread] = 3 * thread;
  int first = 0;
  if (kFault != Fault::kLaneMissing || lane_id() != 7) first = __shfl_sync(~0U, thread, 0);
  if constexpr (kFault != Fault::kNoSyncwarp) __syncwarp();
  out[thread] = values.of[thread ^ 31] + 0 * first;
}

template <Fault kFault>
Outcome run_warp_reverse() {
  std::vector<int> expected(64);
  for (int i = 0; i < 64; ++i) expected[static_cast<std::size_t>(i)] = 3 * (i ^ 31);
  const Buffer<int> out(std::vector<int>(64, -1));
  launch<warp_reverse_kernel<kFault>>(1, 64, 0, nullptr, out.get());
  return outcome_of(out, expected);
}

struct LastBlock {
  int last;
};

// The last block to finish adds up what all wrote.
template <Fault kFault>
__global__ void blocks_kernel(int* out, int* partials, int* finished) {
  auto& shared = static_shared<LastBlock>();
  const int blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x);
  if (kFault == Fault::kBlocksRace && threadIdx.x == 0) partials[0] = block;
  partials[block * 32 + static_cast<int>(threadIdx.x)] = block;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.last = kFault == Fault::kCountWithoutAtomic ? block == blocks - 1
                                                       : atomicAdd(finished, 1) == blocks - 1;
  }
  __syncthreads();
  if (shared.last == 0 || threadIdx.x > 0) return;
  int total = 0;
  for (int i = 0; i < blocks * 32; ++i) total += partials[i];
  *out = total;
}

template <Fault kFault>
Outcome run_blocks() {
  constexpr int kBlocks = 8;
  const Buffer<int> out({-1});
  const Buffer<int> partials(std::vector<int>(kBlocks * 32, 0));
  const Buffer<int> finished({0});
  launch<blocks_kernel<kFault>>(kBlocks, 32, 0, nullptr, out.get(), partials.get(), finished.get());
  return outcome_of(out, {32 * kBlocks * (kBlocks - 1) / 2});
}

template <Fault kFault>
__global__ void misuse_kernel(float* out, int number) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (kFault == Fault::kNamedBarrierDeadlock) {
    thread == 40 ? __syncthreads() : bar_sync(1, 64);
  } else if constexpr (kFault == Fault::kMisaligned) {
    cuda::store(out + 1, cuda::Floats<4>{});
  } else if constexpr (kFault == Fault::kShiftTooFar) {
    out[thread] = static_cast<float>(1 << (number + thread));
  } else if constexpr (kFault == Fault::kStackOverflow) {
    volatile float big[100000];
    big[number] = 1;
    out[0] = big[number];
  } else {
    out[thread] = 1;
  }
}

template <Fault kFault>
Outcome run_misuse() {
  Buffer<float> out(std::vector<float>(64, -1));
  std::vector<float> host(64);
  float* target = out.get();
  if (kFault == Fault::kHostPointer) target = host.data();
  if (kFault == Fault::kNullPointer) target = nullptr;
  if (kFault == Fault::kFreedPointer) {
    Buffer<float> gone(std::vector<float>(64, 0));
    target = gone.get();
  }
  try {
    launch<misuse_kernel<kFault>>(1, 64, 0, nullptr, target, 20);
  } catch (const std::exception& error) {
    simt::take_error();
    return {.right = false, .report = error.what()};
  }
  return outcome_of(out, std::vector<float>(64, 1));
}

template <int kPitch>
struct Tile {
  float at[32][kPitch];
};

template <int kPitch>
__global__ void transpose_tile_kernel(float* out, const float* in) {
  auto& tile = static_shared<Tile<kPitch>>();
  const int lane = lane_id();
  for (int row = 0; row < 32; ++row) tile.at[row][lane] = in[row * 32 + lane];
  __syncwarp();
  for (int row = 0; row < 32; ++row) out[row * 32 + lane] = tile.at[lane][row];
}

}  // namespace

#define CASE(RUN, FAULT) \
  case Fault::FAULT:     \
    return RUN<Fault::FAULT>()

Outcome block_sum(Fault fault) {
  switch (fault) {
    CASE(run_block_sum, kNoBarrier);
    CASE(run_block_sum, kIndexPastArray);
    CASE(run_block_sum, kReturnsEarly);
    CASE(run_block_sum, kDivergentBarrier);
    CASE(run_block_sum, kWritesPastOutput);
    CASE(run_block_sum, kWritesPastShared);
    CASE(run_block_sum, kReadsUnwritten);
    default:
      return run_block_sum<Fault::kNone>();
  }
}

Outcome pipeline(Fault fault) {
  switch (fault) {
    CASE(run_pipeline, kWaitsOneShort);
    CASE(run_pipeline, kNoBarrierAfterWait);
    CASE(run_pipeline, kNoBarrierAtLoopEnd);
    CASE(run_pipeline, kFillsLiveBuffer);
    default:
      return run_pipeline<Fault::kNone>();
  }
}

Outcome product(Fault fault) {
  switch (fault) {
    CASE(run_product, kSwapsFragments);
    CASE(run_product, kNotTransposed);
    default:
      return run_product<Fault::kNone>();
  }
}

Outcome warp_reverse(Fault fault) {
  switch (fault) {
    CASE(run_warp_reverse, kNoSyncwarp);
    CASE(run_warp_reverse, kLaneMissing);
    default:
      return run_warp_reverse<Fault::kNone>();
  }
}

Outcome blocks(Fault fault) {
  switch (fault) {
    CASE(run_blocks, kBlocksRace);
    CASE(run_blocks, kCountWithoutAtomic);
    default:
      return run_blocks<Fault::kNone>();
  }
}

Outcome misuse(Fault fault) {
  switch (fault) {
    CASE(run_misuse, kNamedBarrierDeadlock);
    CASE(run_misuse, kHostPointer);
    CASE(run_misuse, kNullPointer);
    CASE(run_misuse, kFreedPointer);
    CASE(run_misuse, kMisaligned);
    CASE(run_misuse, kShiftTooFar);
    CASE(run_misuse, kStackOverflow);
    default:
      return run_misuse<Fault::kNone>();
  }
}

Outcome transpose_tile(bool padded) {
  std::vector<float> values(1024);
  std::vector<float> expected(1024);
  for (std::size_t i = 0; i < 1024; ++i) {
    values[i] = static_cast<float>(i);
    expected[i % 32 * 32 + i / 32] = values[i];
  }
  const Buffer<float> in(values);
  const Buffer<float> out(std::vector<float>(1024, -1));
  if (padded) {
    launch<transpose_tile_kernel<33>>(1, 32, 0, nullptr, out.get(), in.get());
  } else {
    launch<transpose_tile_kernel<32>>(1, 32, 0, nullptr, out.get(), in.get());
  }
  return outcome_of(out, expected);
}

}  // namespace flywheel::test

#pragma once

// The header of all kernels, for nvcc and for the emulator (docs/cuda.md has the rules).
#ifdef FLYWHEEL_SIMT
#include "simt/emulator/cuda.h"
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/device/check.h"

namespace flywheel::cuda {

using bf16 = __nv_bfloat16;

// kKernel<<<grid, block, shared_bytes, stream>>>(args...). Error Device for an invalid launch; what
// goes wrong while it runs shows at the next synchronisation.
template <auto kKernel, class... Args>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Args&&... args) {
#ifdef FLYWHEEL_SIMT
  check(simt::queue_kernel<kKernel>(grid, block, shared_bytes, stream, std::forward<Args>(args)...),
        "kernel launch");
#else
  constexpr std::size_t kDefaultLimit = 48 << 10;
  if (shared_bytes > kDefaultLimit) {
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "shared memory of a kernel");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kKernel, std::forward<Args>(args)...), "kernel launch");
#endif
}

// Dynamic shared memory as one struct or the first of many; launch with its size.
template <class T>
__device__ __forceinline__ T& dynamic_shared() {
#ifdef FLYWHEEL_SIMT
  return simt::dynamic_shared<T>();
#else
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return *reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

// Static shared memory: one object of each type, so give each kernel a struct of its own.
template <class T>
__device__ __forceinline__ T& static_shared() {
#ifdef FLYWHEEL_SIMT
  return simt::static_shared<T>();
#else
  __shared__ T object;
  return object;
#endif
}

#ifdef FLYWHEEL_SIMT
template <int kBytes>
using Access = typename simt::AccessOf<kBytes>::Type;
#else
template <int kBytes>
struct AccessOf;
template <>
struct AccessOf<2> {
  using Type = std::uint16_t;
};
template <>
struct AccessOf<4> {
  using Type = std::uint32_t;
};
template <>
struct AccessOf<8> {
  using Type = uint2;
};
template <>
struct AccessOf<16> {
  using Type = uint4;
};
template <int kBytes>
using Access = typename AccessOf<kBytes>::Type;
#endif

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ int lane_id() {
  return static_cast<int>(threadIdx.x % kWarp);
}
// Of a block of one axis.
__device__ __forceinline__ int warp_id() {
  return static_cast<int>(threadIdx.x / kWarp);
}
// The row of a warp, where each warp of the grid takes one.
__device__ __forceinline__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + warp_id();
}
// The element of a thread, where each thread of the grid takes one.
__device__ __forceinline__ std::int64_t index_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__host__ __device__ __forceinline__ float to_float(float x) {
  return x;
}
__host__ __device__ __forceinline__ float to_float(bf16 x) {
  return __bfloat162float(x);
}
template <class T>
__host__ __device__ __forceinline__ T from_float(float x);
template <>
__host__ __device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__host__ __device__ __forceinline__ bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
// x as it reads after a store as T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// kCount neighbours as floats.
template <int kCount>
struct Floats {
  float at[kCount];
  __device__ __forceinline__ float& operator[](int i) { return at[i]; }
  __device__ __forceinline__ float operator[](int i) const { return at[i]; }
};

// Elements of T in an access of 16 bytes.
template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// Loads and stores kCount elements in accesses of at most 16 bytes; aligned to the access.
template <int kCount, class T>
__device__ __forceinline__ Floats<kCount> load(const T* from) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  constexpr int kEach = kBytes < 16 ? kBytes : 16;
  union {
    Access<kEach> words[kBytes / kEach];
    T elements[kCount];
  } bits;
#pragma unroll
  for (int i = 0; i < kBytes / kEach; ++i) {
    bits.words[i] = reinterpret_cast<const Access<kEach>*>(from)[i];
  }
  Floats<kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = to_float(bits.elements[i]);
  return values;
}

template <int kCount, class T>
__device__ __forceinline__ void store(T* to, const Floats<kCount>& values) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  constexpr int kEach = kBytes < 16 ? kBytes : 16;
  union {
    Access<kEach> words[kBytes / kEach];
    T elements[kCount];
  } bits;
#pragma unroll
  for (int i = 0; i < kCount; ++i) bits.elements[i] = from_float<T>(values[i]);
#pragma unroll
  for (int i = 0; i < kBytes / kEach; ++i) {
    reinterpret_cast<Access<kEach>*>(to)[i] = bits.words[i];
  }
}

// The same result in all lanes.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  return x;
}

}  // namespace flywheel::cuda

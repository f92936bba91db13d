#pragma once

#include <algorithm>

#include "simt/emulator/block.h"

// The CUDA names that device code uses.
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))

inline thread_local constinit uint3 threadIdx{0, 0, 0};
inline thread_local constinit uint3 blockIdx{0, 0, 0};
inline thread_local constinit dim3 blockDim{1, 1, 1};
inline thread_local constinit dim3 gridDim{1, 1, 1};
constexpr int warpSize = simt::kWarpSize;

inline void __syncthreads(simt::SourceLine line = simt::SourceLine::here()) {
  simt::barrier({}, line);
}
inline int __syncthreads_or(int predicate, simt::SourceLine line = simt::SourceLine::here()) {
  return simt::barrier({.predicate = predicate != 0, .name = "__syncthreads_or"}, line).true_count >
         0;
}
inline int __syncthreads_count(int predicate, simt::SourceLine line = simt::SourceLine::here()) {
  return simt::barrier({.predicate = predicate != 0, .name = "__syncthreads_count"}, line)
      .true_count;
}

inline void __syncwarp(std::uint32_t mask = ~0U, simt::SourceLine line = simt::SourceLine::here()) {
  int nothing = 0;
  simt::collective(mask, "__syncwarp", nothing, line, [](int**, std::uint32_t lanes) {
    if (simt::observer) simt::observer->warp_ordered(lanes);
  });
}

namespace simt {

// Calls f(lane) for each lane of the mask.
template <class F>
inline __attribute__((always_inline)) void for_lanes(std::uint32_t mask, F f) {
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) f(std::countr_zero(rest));
}

template <class T>
struct Shuffle {
  T value, result;
  int source;
};

template <class T>
SIMT_UNCHECKED T shuffle(std::uint32_t mask, T value, int source, const char* name,
                         SourceLine line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  Shuffle<T> record{value, value, source};
  collective(mask, name, record, line, [](Shuffle<T>** lanes, std::uint32_t all) SIMT_UNCHECKED {
    for (std::uint32_t rest = all; rest != 0; rest &= rest - 1) {
      Shuffle<T>& lane = *lanes[std::countr_zero(rest)];
      if ((all >> lane.source & 1U) != 0) {
        lane.result = lanes[lane.source]->value;
      } else {
        std::memset(static_cast<void*>(&lane.result), 0xff, sizeof(T));  // undefined: poison
      }
    }
  });
  return record.result;
}

struct Vote {
  std::uint32_t in, out;
};

SIMT_UNCHECKED inline std::uint32_t vote(std::uint32_t mask, bool predicate, const char* name,
                                         SourceLine line) {
  Vote record{predicate, 0};
  collective(mask, name, record, line, [](Vote** lanes, std::uint32_t all) SIMT_UNCHECKED {
    std::uint32_t ballot = 0;
    for (std::uint32_t rest = all; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      ballot |= lanes[lane]->in << lane;
    }
    for (std::uint32_t rest = all; rest != 0; rest &= rest - 1) {
      lanes[std::countr_zero(rest)]->out = ballot;
    }
  });
  return record.out;
}

}  // namespace simt

template <class T>
T __shfl_sync(std::uint32_t mask, T value, int source, int width = warpSize,
              simt::SourceLine line = simt::SourceLine::here()) {
  const int lane = simt::worker->current->lane;
  return simt::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), "__shfl_sync",
                       line);
}
template <class T>
T __shfl_xor_sync(std::uint32_t mask, T value, int lanes, int width = warpSize,
                  simt::SourceLine line = simt::SourceLine::here()) {
  const int lane = simt::worker->current->lane;
  const int source = lane ^ lanes;
  const bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
  return simt::shuffle(mask, value, inside ? source : lane, "__shfl_xor_sync", line);
}
template <class T>
T __shfl_down_sync(std::uint32_t mask, T value, unsigned lanes, int width = warpSize,
                   simt::SourceLine line = simt::SourceLine::here()) {
  const int lane = simt::worker->current->lane;
  const int source = lane + static_cast<int>(lanes);
  return simt::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source,
                       "__shfl_down_sync", line);
}
template <class T>
T __shfl_up_sync(std::uint32_t mask, T value, unsigned lanes, int width = warpSize,
                 simt::SourceLine line = simt::SourceLine::here()) {
  const int lane = simt::worker->current->lane;
  const int source = lane - static_cast<int>(lanes);
  return simt::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source,
                       "__shfl_up_sync", line);
}
inline std::uint32_t __ballot_sync(std::uint32_t mask, int predicate,
                                   simt::SourceLine line = simt::SourceLine::here()) {
  return simt::vote(mask, predicate != 0, "__ballot_sync", line);
}
inline int __any_sync(std::uint32_t mask, int predicate,
                      simt::SourceLine line = simt::SourceLine::here()) {
  return simt::vote(mask, predicate != 0, "__any_sync", line) != 0;
}
inline int __all_sync(std::uint32_t mask, int predicate,
                      simt::SourceLine line = simt::SourceLine::here()) {
  return simt::vote(mask, predicate == 0, "__all_sync", line) == 0;
}

// Blocks run on several threads of the host, so atomics are real ones.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  T seen;
  __atomic_load(address, &seen, __ATOMIC_RELAXED);
  for (;;) {
    T sum = seen + value;
    if (__atomic_compare_exchange(address, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return seen;
    }
  }
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  T seen;
  __atomic_load(address, &seen, __ATOMIC_RELAXED);
  while (seen < value && !__atomic_compare_exchange(address, &seen, &value, true, __ATOMIC_RELAXED,
                                                    __ATOMIC_RELAXED)) {
  }
  return seen;
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

inline float rsqrtf(float x) {
  return 1.0F / sqrtf(x);
}
inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline std::uint32_t __float_as_uint(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline int __popc(std::uint32_t x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
using std::max;
using std::min;
[[noreturn]] inline void __trap() {
  simt::fail("__trap()");
}

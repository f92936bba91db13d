#include <array>
#include <cmath>

#include "core/philox.h"
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 256;

// The bf16 copy of weights.
struct Rounding {
  bf16* out;  // null: there is none
  std::uint64_t seed;
  std::uint32_t step;              // 0: to the nearest
  std::int64_t first_element = 0;  // what out[0] is in the parameter
};

struct AdamW {
  float* param;
  float* m;
  float* v;
  const float* grad;
  const float* clip;
  Rounding rounding;
  std::int64_t count;
  float beta1, beta2, rest1, rest2, m_factor, v_factor, eps, decay;
};

// Down with probability 1 - f, up with f, where f is the share that the low 16 bits stand for.
__device__ __forceinline__ bf16 round_at_random(float x, std::uint32_t random) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7f800000U) == 0x7f800000U) return from_float<bf16>(x);  // not finite
  const std::uint32_t moved = bits + (random & 0xffffU);
  return __ushort_as_bfloat16(static_cast<unsigned short>(moved >> 16));
}

__device__ __forceinline__ std::array<std::uint32_t, 4> rounding_words(const Rounding& rounding,
                                                                       std::uint64_t block) {
  return philox4x32(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), rounding.step,
       static_cast<std::uint32_t>(RandomStream::kRounding)},
      {static_cast<std::uint32_t>(rounding.seed), static_cast<std::uint32_t>(rounding.seed >> 32)});
}

// Element i is rounded by word i % 4 of Philox block i / 4 of (seed, step). The loop has constant
// indices: a computed one would put the words into local memory.
template <int kCount>
__device__ __forceinline__ void store_rounded(const Rounding& rounding, std::int64_t at,
                                              const Floats<kCount>& params) {
  static_assert(kCount == 1 || kCount == 4);
  const std::int64_t element = rounding.first_element + at;
  const auto words = rounding_words(rounding, static_cast<std::uint64_t>(element) / 4);
  const int first = static_cast<int>(element % 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < first || i >= first + kCount) continue;
    rounding.out[at - first + i] = round_at_random(params[kCount == 1 ? 0 : i], words[i]);
  }
}

template <int kCount>
__global__ void __launch_bounds__(kThreads) adamw_step_kernel(AdamW args) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= args.count) return;
  const float clip = *args.clip;
  Floats<kCount> params = load<kCount>(args.param + at);
  Floats<kCount> first = load<kCount>(args.m + at);
  Floats<kCount> second = load<kCount>(args.v + at);
  const Floats<kCount> grads = load<kCount>(args.grad + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float g = grads[i] * clip;
    first[i] = args.beta1 * first[i] + args.rest1 * g;
    second[i] = args.beta2 * second[i] + args.rest2 * g * g;
    const float spread = sqrtf(second[i] * args.v_factor) + args.eps;
    params[i] -= args.decay * params[i] + first[i] * args.m_factor / spread;
  }
  store(args.param + at, params);
  store(args.m + at, first);
  store(args.v + at, second);
  if (args.rounding.out) store_rounded(args.rounding, at, params);
}

template <int kCount>
__global__ void __launch_bounds__(kThreads)
    round_weights_kernel(Rounding rounding, const float* x, std::int64_t count) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= count) return;
  const Floats<kCount> values = load<kCount>(x + at);
  if (rounding.step == 0) {
    store(rounding.out + at, values);
  } else {
    store_rounded(rounding, at, values);
  }
}

struct BlockSums {
  double of[kThreads / kWarp];
};

// The same tree whatever the order of the blocks; the result is valid in thread 0.
__device__ __forceinline__ double sum_of_block(double mine) {
  auto& sums = static_shared<BlockSums>();
  mine = warp_sum(mine);
  if (lane_id() == 0) sums.of[warp_id()] = mine;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0) {
    for (const double sum : sums.of) total += sum;
  }
  return total;
}

template <int kCount, bool kSquare>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(double* partials, const float* x, std::int64_t count,
               std::int64_t elements_a_block) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * elements_a_block;
  const std::int64_t end = min(count, begin + elements_a_block);
  double sum = 0;
  for (std::int64_t at = begin + threadIdx.x * kCount; at < end; at += kThreads * kCount) {
    const Floats<kCount> values = load<kCount>(x + at);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const double value = static_cast<double>(values[i]);
      sum += kSquare ? value * value : value;
    }
  }
  const double total = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    add_partials_kernel(double* out, const double* partials, unsigned count, bool accumulate) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  const double total = sum_of_block(sum);
  if (threadIdx.x == 0) *out = accumulate ? *out + total : total;
}

template <bool kSquare>
void run_sum(double* out, const TensorView& x, bool accumulate, const Workspace& workspace,
             cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 1024;
  constexpr std::int64_t kLeast = 16 << 10;
  const std::int64_t count = x.elements();
  RowBlocks division = divide_rows(count, kLeast, kMostBlocks);
  division.rows_a_block = (division.rows_a_block + kLeast - 1) / kLeast * kLeast;
  division.blocks = blocks_for(count, division.rows_a_block);
  double* partials = scratch<double>(workspace, 0, kMostBlocks);
  if (count > 0) {
    const auto run = [&]<int kCount>() {
      launch<sum_kernel<kCount, kSquare>>(division.blocks, kThreads, 0, stream, partials,
                                          pointer_to<const float>(x), count, division.rows_a_block);
    };
    can_pack(count, {&x}) ? run.template operator()<kPack<float>>() : run.template operator()<1>();
  }
  launch<add_partials_kernel>(1, kThreads, 0, stream, out, partials, division.blocks, accumulate);
}

}  // namespace

void adamw_step(const AdamWStep& args, cudaStream_t stream) {
  const std::int64_t count = args.param.elements();
  if (count == 0) return;
  const double step = static_cast<double>(args.step);
  const double rate = args.learning_rate;
  const double m_correction = 1 - std::pow(static_cast<double>(args.beta1), step);
  const double v_correction = 1 - std::pow(static_cast<double>(args.beta2), step);
  const AdamW all{.param = args.param.f32(),
                  .m = args.m.f32(),
                  .v = args.v.f32(),
                  .grad = args.grad.f32(),
                  .clip = args.clip.f32(),
                  .rounding = {pointer_to<bf16>(args.rounded), args.rounding_seed,
                               static_cast<std::uint32_t>(args.step), args.first_element},
                  .count = count,
                  .beta1 = args.beta1,
                  .beta2 = args.beta2,
                  .rest1 = 1.0F - args.beta1,
                  .rest2 = 1.0F - args.beta2,
                  .m_factor = static_cast<float>(rate / m_correction),
                  .v_factor = static_cast<float>(1 / v_correction),
                  .eps = args.eps,
                  .decay = static_cast<float>(rate * static_cast<double>(args.weight_decay))};
  constexpr int kCount = kPack<float>;
  const bool whole_blocks = args.first_element % kCount == 0;
  if (whole_blocks && can_pack(count, {&args.param, &args.m, &args.v, &args.grad})) {
    launch<adamw_step_kernel<kCount>>(blocks_for(count, kThreads * kCount), kThreads, 0, stream,
                                      all);
  } else {
    launch<adamw_step_kernel<1>>(blocks_for(count, kThreads), kThreads, 0, stream, all);
  }
}

void round_weights(const RoundWeights& args, cudaStream_t stream) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  const Rounding rounding{pointer_to<bf16>(args.out), args.seed,
                          static_cast<std::uint32_t>(args.step)};
  constexpr int kCount = kPack<float>;
  if (can_pack(count, {&args.out, &args.x})) {
    launch<round_weights_kernel<kCount>>(blocks_for(count, kThreads * kCount), kThreads, 0, stream,
                                         rounding, pointer_to<const float>(args.x), count);
  } else {
    launch<round_weights_kernel<1>>(blocks_for(count, kThreads), kThreads, 0, stream, rounding,
                                    pointer_to<const float>(args.x), count);
  }
}

void sum(const Sum& args, const Workspace& workspace, cudaStream_t stream) {
  run_sum<false>(args.out.f64(), args.x, args.accumulate, workspace, stream);
}

void sum_of_squares(const SumOfSquares& args, const Workspace& workspace, cudaStream_t stream) {
  run_sum<true>(args.out.f64(), args.x, false, workspace, stream);
}

}  // namespace flywheel::cuda

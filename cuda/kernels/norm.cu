// RMSNorm and LayerNorm: a warp a row.
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kRows = 4;  // a block
constexpr std::int64_t kMostBlocks = 264;

enum class Norm { kRms, kLayer };

struct NormForward {
  void* sum;  // with kAdd
  void* out;
  float* mean;  // of LayerNorm
  float* rstd;
  const void* x;
  const void* residual;  // with kAdd
  const void* weight;
  const void* bias;  // optional
  std::int64_t rows, width;
  float eps;
};

template <class T, int kCount, Norm kNorm, bool kAdd>
__global__ void __launch_bounds__(kRows* kWarp) norm_forward_kernel(NormForward args) {
  const std::int64_t row = row_of_warp();
  if (row >= args.rows) return;
  const std::int64_t first = row * args.width;
  const T* x = static_cast<const T*>(args.x) + first;
  const int begin = lane_id() * kCount;
  constexpr int kStep = kWarp * kCount;
  const float width = static_cast<float>(args.width);

  if constexpr (kAdd) {
    const T* residual = static_cast<const T*>(args.residual) + first;
    T* sum = static_cast<T*>(args.sum) + first;
    for (std::int64_t c = begin; c < args.width; c += kStep) {
      Floats<kCount> values = load<kCount>(x + c);
      const Floats<kCount> others = load<kCount>(residual + c);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] += others[i];
      store(sum + c, values);
    }
    x = sum;  // each lane reads what it wrote
  }
  float mean = 0;
  if constexpr (kNorm == Norm::kLayer) {
    float total = 0;
    for (std::int64_t c = begin; c < args.width; c += kStep) {
      const Floats<kCount> values = load<kCount>(x + c);
#pragma unroll
      for (int i = 0; i < kCount; ++i) total += values[i];
    }
    mean = warp_sum(total) / width;
  }
  float squares = 0;
  for (std::int64_t c = begin; c < args.width; c += kStep) {
    const Floats<kCount> values = load<kCount>(x + c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) squares += (values[i] - mean) * (values[i] - mean);
  }
  const float rstd = 1.0F / sqrtf(warp_sum(squares) / width + args.eps);
  if (lane_id() == 0) {
    args.rstd[row] = rstd;
    if constexpr (kNorm == Norm::kLayer) args.mean[row] = mean;
  }
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  T* out = static_cast<T*>(args.out) + first;
  for (std::int64_t c = begin; c < args.width; c += kStep) {
    Floats<kCount> values = load<kCount>(x + c);
    const Floats<kCount> weights = load<kCount>(weight + c);
    Floats<kCount> shift{};
    if (kNorm == Norm::kLayer && bias) shift = load<kCount>(bias + c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = (values[i] - mean) * rstd * weights[i] + shift[i];
    }
    store(out + c, values);
  }
}

struct NormBackward {
  void* dx;
  float* partials;  // [blocks, dweight then dbias, width]
  const void* dout;
  const void* x;
  const float* mean;  // of LayerNorm
  const float* rstd;
  const void* weight;
  std::int64_t rows, width, rows_a_block;
  std::int64_t padded_width;  // a multiple of the elements of a warp's step
  bool with_bias;
  bool accumulate;
};

// Sums of the weight gradients of one warp, in shared memory: lane l keeps element i of its access
// number s at [(s kCount + i) 32 + l], which no other lane touches and no two lanes share a bank
// of.
template <int kCount>
__device__ __forceinline__ std::int64_t sum_index(std::int64_t column, int i) {
  const std::int64_t step = column / (kWarp * kCount);
  return (step * kCount + i) * kWarp + lane_id();
}

template <class T, int kCount, Norm kNorm>
__device__ __forceinline__ void norm_backward_row(const NormBackward& args, std::int64_t row,
                                                  float* dweight, float* dbias) {
  const std::int64_t first = row * args.width;
  const T* x = static_cast<const T*>(args.x) + first;
  const T* dout = static_cast<const T*>(args.dout) + first;
  const T* weight = static_cast<const T*>(args.weight);
  T* dx = static_cast<T*>(args.dx) + first;
  const float mean = kNorm == Norm::kLayer ? args.mean[row] : 0.0F;
  const float rstd = args.rstd[row];
  constexpr int kStep = kWarp * kCount;

  float sum = 0;
  float dot = 0;
  for (std::int64_t c = lane_id() * kCount; c < args.width; c += kStep) {
    const Floats<kCount> values = load<kCount>(x + c);
    const Floats<kCount> gradients = load<kCount>(dout + c);
    const Floats<kCount> weights = load<kCount>(weight + c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float y = (values[i] - mean) * rstd;
      sum += gradients[i] * weights[i];
      dot += gradients[i] * weights[i] * y;
      dweight[sum_index<kCount>(c, i)] += gradients[i] * y;
      if (kNorm == Norm::kLayer && args.with_bias) {
        dbias[sum_index<kCount>(c, i)] += gradients[i];
      }
    }
  }
  const float width = static_cast<float>(args.width);
  const float mean_g = kNorm == Norm::kLayer ? warp_sum(sum) / width : 0.0F;
  const float mean_gy = warp_sum(dot) / width;
  for (std::int64_t c = lane_id() * kCount; c < args.width; c += kStep) {
    const Floats<kCount> values = load<kCount>(x + c);
    const Floats<kCount> gradients = load<kCount>(dout + c);
    const Floats<kCount> weights = load<kCount>(weight + c);
    Floats<kCount> result{};
    if (args.accumulate) result = load<kCount>(dx + c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float y = (values[i] - mean) * rstd;
      result[i] += rstd * (gradients[i] * weights[i] - mean_g - y * mean_gy);
    }
    store(dx + c, result);
  }
}

template <class T, int kCount, Norm kNorm>
__global__ void __launch_bounds__(kRows* kWarp) norm_backward_kernel(NormBackward args) {
  float* sums = &dynamic_shared<float>();  // [warps, kinds, padded_width]
  const int kinds = args.with_bias ? 2 : 1;
  const int warps = static_cast<int>(blockDim.x / kWarp);
  const std::int64_t warp_floats = kinds * args.padded_width;
  float* dweight = sums + warp_id() * warp_floats;
  float* dbias = dweight + args.padded_width;
  for (std::int64_t i = lane_id(); i < warp_floats; i += kWarp) dweight[i] = 0;

  const std::int64_t begin = std::int64_t{blockIdx.x} * args.rows_a_block;
  const std::int64_t end = min(args.rows, begin + args.rows_a_block);
  for (std::int64_t row = begin + warp_id(); row < end; row += warps) {
    norm_backward_row<T, kCount, kNorm>(args, row, dweight, dbias);
  }
  __syncthreads();
  float* partial = args.partials + std::int64_t{blockIdx.x} * kinds * args.width;
  for (std::int64_t i = threadIdx.x; i < warp_floats; i += blockDim.x) {
    const std::int64_t kind = i / args.padded_width;
    const std::int64_t slot = i % args.padded_width;
    const std::int64_t access = slot / kWarp / kCount;
    const std::int64_t column = (access * kWarp + slot % kWarp) * kCount + slot / kWarp % kCount;
    if (column >= args.width) continue;
    float total = 0;
    for (int warp = 0; warp < warps; ++warp) total += sums[warp * warp_floats + i];
    partial[kind * args.width + column] = total;
  }
}

template <Norm kNorm, bool kAdd>
void run_forward(const NormForward& args, DType dtype, bool packed, cudaStream_t stream) {
  if (args.rows == 0) return;
  for_dtype(dtype, packed, [&]<class T, int kCount>() {
    launch<norm_forward_kernel<T, kCount, kNorm, kAdd>>(blocks_for(args.rows, kRows), kRows * kWarp,
                                                        0, stream, args);
  });
}

// As many warps as shared memory has room for.
int warps_for(std::int64_t bytes_a_warp) {
  constexpr std::int64_t kSharedBytes = 96 << 10;
  int warps = kRows;
  while (warps > 1 && warps * bytes_a_warp > kSharedBytes) warps /= 2;
  return warps;
}

template <Norm kNorm>
void run_backward(NormBackward args, float* dweight, float* dbias, DType dtype, bool packed,
                  const Workspace& workspace, cudaStream_t stream) {
  if (args.rows == 0) return;
  const std::int64_t kinds = dbias ? 2 : 1;
  const RowBlocks division = divide_rows(args.rows, 4 * kRows, kMostBlocks);
  args.rows_a_block = division.rows_a_block;
  args.with_bias = dbias != nullptr;
  args.partials = scratch<float>(workspace, 0, division.blocks * kinds * args.width);
  for_dtype(dtype, packed, [&]<class T, int kCount>() {
    constexpr std::int64_t kStep = kWarp * kCount;
    args.padded_width = (args.width + kStep - 1) / kStep * kStep;
    const std::int64_t bytes = kinds * args.padded_width * static_cast<std::int64_t>(sizeof(float));
    const int warps = warps_for(bytes);
    launch<norm_backward_kernel<T, kCount, kNorm>>(
        division.blocks, warps * kWarp, static_cast<std::size_t>(warps * bytes), stream, args);
  });
  const std::int64_t rows = division.blocks;
  if (dbias) {
    // The partials of both interleave row by row: sum them as one matrix of twice the width.
    float* sums = scratch<float>(workspace, rows * kinds * args.width, kinds * args.width);
    check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(kinds * args.width) * sizeof(float),
                          stream),
          "memset");
    add_column_sums(sums, args.partials, rows, kinds * args.width, stream);
    add_column_sums(dweight, sums, 1, args.width, stream);
    add_column_sums(dbias, sums + args.width, 1, args.width, stream);
  } else {
    add_column_sums(dweight, args.partials, rows, args.width, stream);
  }
}

}  // namespace

void rms_norm_forward(const RmsNormForward& args, cudaStream_t stream) {
  run_forward<Norm::kRms, false>(
      {.out = args.out.data,
       .rstd = args.rstd.f32(),
       .x = args.x.data,
       .weight = args.weight.data,
       .rows = args.x.shape[0],
       .width = args.x.shape[1],
       .eps = args.eps},
      args.x.dtype, can_pack(args.x.shape[1], {&args.out, &args.x, &args.weight}), stream);
}

void add_rms_norm_forward(const AddRmsNormForward& args, cudaStream_t stream) {
  run_forward<Norm::kRms, true>(
      {.sum = args.sum.data,
       .out = args.out.data,
       .rstd = args.rstd.f32(),
       .x = args.x.data,
       .residual = args.residual.data,
       .weight = args.weight.data,
       .rows = args.x.shape[0],
       .width = args.x.shape[1],
       .eps = args.eps},
      args.x.dtype,
      can_pack(args.x.shape[1], {&args.sum, &args.out, &args.x, &args.residual, &args.weight}),
      stream);
}

void rms_norm_backward(const RmsNormBackward& args, const Workspace& workspace,
                       cudaStream_t stream) {
  run_backward<Norm::kRms>({.dx = args.dx.data,
                            .dout = args.dout.data,
                            .x = args.x.data,
                            .rstd = args.rstd.f32(),
                            .weight = args.weight.data,
                            .rows = args.x.shape[0],
                            .width = args.x.shape[1],
                            .accumulate = args.accumulate},
                           args.dweight.f32(), nullptr, args.x.dtype,
                           can_pack(args.x.shape[1], {&args.dx, &args.dout, &args.x, &args.weight}),
                           workspace, stream);
}

void layer_norm_forward(const LayerNormForward& args, cudaStream_t stream) {
  run_forward<Norm::kLayer, false>(
      {.out = args.out.data,
       .mean = args.mean.f32(),
       .rstd = args.rstd.f32(),
       .x = args.x.data,
       .weight = args.weight.data,
       .bias = args.bias.data,
       .rows = args.x.shape[0],
       .width = args.x.shape[1],
       .eps = args.eps},
      args.x.dtype, can_pack(args.x.shape[1], {&args.out, &args.x, &args.weight, &args.bias}),
      stream);
}

void layer_norm_backward(const LayerNormBackward& args, const Workspace& workspace,
                         cudaStream_t stream) {
  run_backward<Norm::kLayer>(
      {.dx = args.dx.data,
       .dout = args.dout.data,
       .x = args.x.data,
       .mean = args.mean.f32(),
       .rstd = args.rstd.f32(),
       .weight = args.weight.data,
       .rows = args.x.shape[0],
       .width = args.x.shape[1],
       .accumulate = args.accumulate},
      args.dweight.f32(), args.dbias.data ? args.dbias.f32() : nullptr, args.x.dtype,
      can_pack(args.x.shape[1], {&args.dx, &args.dout, &args.x, &args.weight}), workspace, stream);
}

}  // namespace flywheel::cuda

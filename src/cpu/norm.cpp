#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// Rows [begin, end) of each op.

// out = x * rstd * weight for a row; returns rstd.
HWY_INLINE float rms_norm_row(float* out, const float* x, const float* weight, std::int64_t width,
                              float eps) {
  const F32 d;
  const float squares = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector sum) HWY_ATTR {
    const auto v = lanes.load(x + i);
    return hn::MulAdd(v, v, sum);
  });
  const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + eps);
  const auto factor = hn::Set(d, rstd);
  for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Mul(hn::Mul(lanes.load(x + i), factor), lanes.load(weight + i)), out + i);
  });
  return rstd;
}

void rms_norm_rows(const RmsNormForward& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.x.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    args.rstd.f32()[row] = rms_norm_row(args.out.f32() + row * width, args.x.f32() + row * width,
                                        args.weight.f32(), width, args.eps);
  }
}

void add_rms_norm_rows(const AddRmsNormForward& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.x.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.f32() + row * width;
    const float* residual = args.residual.f32() + row * width;
    float* sum = args.sum.f32() + row * width;
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(x + i), lanes.load(residual + i)), sum + i);
    });
    args.rstd.f32()[row] =
        rms_norm_row(args.out.f32() + row * width, sum, args.weight.f32(), width, args.eps);
  }
}

// With y = x rstd and g = dout weight: dx = rstd (g - y mean(g y)), dweight += dout y.
void rms_norm_backward_rows(const RmsNormBackward& args, std::int64_t begin, std::int64_t end,
                            float* dweight) {
  const F32 d;
  const std::int64_t width = args.x.shape[1];
  const float* weight = args.weight.f32();
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.f32() + row * width;
    const float* dout = args.dout.f32() + row * width;
    float* dx = args.dx.f32() + row * width;
    const float rstd = args.rstd.f32()[row];
    const float dot = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector sum) HWY_ATTR {
      return hn::MulAdd(hn::Mul(lanes.load(dout + i), lanes.load(weight + i)), lanes.load(x + i),
                        sum);
    });
    const auto factor = hn::Set(d, rstd);
    const auto along_x = hn::Set(d, dot * rstd * rstd * rstd / static_cast<float>(width));
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto v = lanes.load(x + i);
      const auto scaled = hn::Mul(lanes.load(dout + i), factor);
      lanes.store(hn::MulAdd(scaled, v, lanes.load(dweight + i)), dweight + i);
      auto gradient = hn::NegMulAdd(along_x, v, hn::Mul(scaled, lanes.load(weight + i)));
      if (args.accumulate) gradient = hn::Add(gradient, lanes.load(dx + i));
      lanes.store(gradient, dx + i);
    });
  }
}

void layer_norm_rows(const LayerNormForward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const std::int64_t width = args.x.shape[1];
  const float* weight = args.weight.f32();
  const float* bias = args.bias.f32();
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.f32() + row * width;
    float* out = args.out.f32() + row * width;
    const float sum = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector s)
                                             HWY_ATTR { return hn::Add(s, lanes.load(x + i)); });
    const float mean = sum / static_cast<float>(width);
    const auto center = hn::Set(d, mean);
    // The deviations are stored before they are squared, so that the lanes behind the end add
    // nothing.
    for_vectors(width, [&](std::int64_t i, auto lanes)
                           HWY_ATTR { lanes.store(hn::Sub(lanes.load(x + i), center), out + i); });
    const float squares = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector s) HWY_ATTR {
      const auto v = lanes.load(out + i);
      return hn::MulAdd(v, v, s);
    });
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);
    const auto factor = hn::Set(d, rstd);
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      auto v = hn::Mul(hn::Mul(lanes.load(out + i), factor), lanes.load(weight + i));
      if (bias) v = hn::Add(v, lanes.load(bias + i));
      lanes.store(v, out + i);
    });
    args.mean.f32()[row] = mean;
    args.rstd.f32()[row] = rstd;
  }
}

// With y = (x - mean) rstd and g = dout weight: dx = rstd (g - mean(g) - y mean(g y)).
void layer_norm_backward_rows(const LayerNormBackward& args, std::int64_t begin, std::int64_t end,
                              float* dweight, float* dbias) {
  const F32 d;
  const std::int64_t width = args.x.shape[1];
  const float* weight = args.weight.f32();
  const float per_width = 1.0F / static_cast<float>(width);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.f32() + row * width;
    const float* dout = args.dout.f32() + row * width;
    float* dx = args.dx.f32() + row * width;
    const auto center = hn::Set(d, args.mean.f32()[row]);
    const auto factor = hn::Set(d, args.rstd.f32()[row]);
    const float sum_g = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector s) HWY_ATTR {
      return hn::MulAdd(lanes.load(dout + i), lanes.load(weight + i), s);
    });
    const float sum_gy = sum_vectors(width, [&](std::int64_t i, auto lanes, F32Vector s) HWY_ATTR {
      const auto y = hn::Mul(hn::Sub(lanes.load(x + i), center), factor);
      return hn::MulAdd(hn::Mul(lanes.load(dout + i), lanes.load(weight + i)), y, s);
    });
    const auto mean_g = hn::Set(d, sum_g * per_width);
    const auto mean_gy = hn::Set(d, sum_gy * per_width);
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto y = hn::Mul(hn::Sub(lanes.load(x + i), center), factor);
      const auto gradient_out = lanes.load(dout + i);
      lanes.store(hn::MulAdd(gradient_out, y, lanes.load(dweight + i)), dweight + i);
      if (dbias) lanes.store(hn::Add(gradient_out, lanes.load(dbias + i)), dbias + i);
      const auto g = hn::Sub(hn::Mul(gradient_out, lanes.load(weight + i)), mean_g);
      auto gradient = hn::Mul(factor, hn::NegMulAdd(y, mean_gy, g));
      if (args.accumulate) gradient = hn::Add(gradient, lanes.load(dx + i));
      lanes.store(gradient, dx + i);
    });
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(add_rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);
HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);

void rms_norm_forward(const RmsNormForward& args, ThreadPool& pool) {
  pool.for_range(args.x.shape[0], row_grain(args.x.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, begin, end);
                 });
}

void add_rms_norm_forward(const AddRmsNormForward& args, ThreadPool& pool) {
  pool.for_range(args.x.shape[0], row_grain(args.x.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(add_rms_norm_rows)(args, begin, end);
                 });
}

void rms_norm_backward(const RmsNormBackward& args, ThreadPool& pool, const Workspace& workspace) {
  sum_over_row_blocks(
      args.x.shape[0], args.x.shape[1], {args.dweight.f32()},
      [&](std::int64_t begin, std::int64_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)(args, begin, end, partial);
      },
      pool, workspace);
}

void layer_norm_forward(const LayerNormForward& args, ThreadPool& pool) {
  pool.for_range(args.x.shape[0], row_grain(args.x.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(layer_norm_rows)(args, begin, end);
                 });
}

void layer_norm_backward(const LayerNormBackward& args, ThreadPool& pool,
                         const Workspace& workspace) {
  const std::int64_t width = args.x.shape[1];
  if (args.dbias) {
    sum_over_row_blocks(
        args.x.shape[0], width, {args.dweight.f32(), args.dbias.f32()},
        [&](std::int64_t begin, std::int64_t end, float* partial) {
          HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
          (args, begin, end, partial, partial + width);
        },
        pool, workspace);
    return;
  }
  sum_over_row_blocks(
      args.x.shape[0], width, {args.dweight.f32()},
      [&](std::int64_t begin, std::int64_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)(args, begin, end, partial, nullptr);
      },
      pool, workspace);
}

}  // namespace flywheel::cpu
#endif

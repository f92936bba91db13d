#include "model/modules.h"

namespace flywheel {

void Linear::forward(Backend& backend, const TensorView& y, const TensorView& x,
                     bool few_rows) const {
  ops::matmul(backend, {.out = y,
                        .a = x,
                        .b = weight_,
                        .bias = bias_,
                        .transpose_b = !in_out_,
                        .few_rows = few_rows});
}

void Linear::backward(Backend& backend, const TensorView& dx, const TensorView& dy,
                      const TensorView& x, bool accumulate) const {
  ops::matmul(backend, {.out = dx,
                        .a = dy,
                        .b = weight_,
                        .bias = {},
                        .transpose_b = in_out_,
                        .accumulate = accumulate});
  ops::matmul(backend, {.out = dweight_,
                        .a = in_out_ ? x : dy,
                        .b = in_out_ ? dy : x,
                        .bias = {},
                        .transpose_a = true,
                        .accumulate = true});
  if (dbias_) ops::bias_backward(backend, {.dbias = dbias_, .dout = dy});
}

void Norm::forward(Backend& backend, const TensorView& y, const NormStatistics& statistics,
                   const TensorView& x) const {
  if (kind_ == NormKind::RmsNorm) {
    ops::rms_norm_forward(
        backend, {.out = y, .rstd = statistics.rstd, .x = x, .weight = weight_, .eps = eps_});
  } else {
    ops::layer_norm_forward(backend, {.out = y,
                                      .mean = statistics.mean,
                                      .rstd = statistics.rstd,
                                      .x = x,
                                      .weight = weight_,
                                      .bias = bias_,
                                      .eps = eps_});
  }
}

void Norm::add_forward(Backend& backend, const TensorView& sum, const TensorView& y,
                       const NormStatistics& statistics, const TensorView& x,
                       const TensorView& residual) const {
  if (kind_ == NormKind::RmsNorm) {
    ops::add_rms_norm_forward(backend, {.sum = sum,
                                        .out = y,
                                        .rstd = statistics.rstd,
                                        .x = x,
                                        .residual = residual,
                                        .weight = weight_,
                                        .eps = eps_});
  } else {
    ops::add(backend, {.out = sum, .a = x, .b = residual});
    forward(backend, y, statistics, sum);
  }
}

void Norm::backward(Backend& backend, const TensorView& dx, const TensorView& dy,
                    const TensorView& x, const NormStatistics& statistics, bool accumulate) const {
  if (kind_ == NormKind::RmsNorm) {
    ops::rms_norm_backward(backend, {.dx = dx,
                                     .dweight = dweight_,
                                     .dout = dy,
                                     .x = x,
                                     .rstd = statistics.rstd,
                                     .weight = weight_,
                                     .accumulate = accumulate});
  } else {
    ops::layer_norm_backward(backend, {.dx = dx,
                                       .dweight = dweight_,
                                       .dbias = dbias_,
                                       .dout = dy,
                                       .x = x,
                                       .mean = statistics.mean,
                                       .rstd = statistics.rstd,
                                       .weight = weight_,
                                       .accumulate = accumulate});
  }
}

}  // namespace flywheel

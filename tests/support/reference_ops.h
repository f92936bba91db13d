#pragma once

#include "support/arrays.h"

// Every op of backend/op_args.h (but attention over packed sequences) as plain loops in the order
// of the formulas. In double they are the reference, in float the naive implementation whose error
// sets the tolerance. Instantiated for both.
namespace flywheel::test::reference {

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
};
template <class Real>
void matmul(Arrays<Real>& t, const MatmulOptions& options);
template <class Real>
void bias_backward(Arrays<Real>& t);
template <class Real>
void embedding_forward(Arrays<Real>& t);
template <class Real>
void embedding_backward(Arrays<Real>& t);
template <class Real>
void rms_norm_forward(Arrays<Real>& t, float eps);
template <class Real>
void add_rms_norm_forward(Arrays<Real>& t, float eps);
template <class Real>
void rms_norm_backward(Arrays<Real>& t, bool accumulate);
template <class Real>
void layer_norm_forward(Arrays<Real>& t, float eps);
template <class Real>
void layer_norm_backward(Arrays<Real>& t, bool accumulate);
template <class Real>
void split_heads_forward(Arrays<Real>& t, float eps);
template <class Real>
void split_heads_backward(Arrays<Real>& t);
template <class Real>
void kv_cache_write(Arrays<Real>& t);
template <class Real>
void attention_decode(Arrays<Real>& t, std::int64_t window, float scale);
template <class Real>
void gate_mix_forward(Arrays<Real>& t);
template <class Real>
void gate_mix_backward(Arrays<Real>& t);
template <class Real>
void swiglu_forward(Arrays<Real>& t);
template <class Real>
void swiglu_backward(Arrays<Real>& t);
template <class Real>
void route_experts(Arrays<Real>& t, bool normalize);
template <class Real>
void grouped_matmul(Arrays<Real>& t);
template <class Real>
void combine_experts(Arrays<Real>& t);
template <class Real>
void gelu_forward(Arrays<Real>& t);
template <class Real>
void gelu_backward(Arrays<Real>& t);

struct CrossEntropyOptions {
  std::int64_t vocab_size = 0;
  float gradient_scale = 0;
  float z_loss = 0;
};
template <class Real>
void cross_entropy(Arrays<Real>& t, const CrossEntropyOptions& options);

struct AdamWOptions {
  std::int64_t step = 1;
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float weight_decay = 0;
};
template <class Real>
void adamw_step(Arrays<Real>& t, const AdamWOptions& options);
template <class Real>
void sum(Arrays<Real>& t, bool accumulate);
template <class Real>
void sum_of_squares(Arrays<Real>& t);
template <class Real>
void add(Arrays<Real>& t);
template <class Real>
void scale(Arrays<Real>& t, float factor);
template <class Real>
void fill(Arrays<Real>& t, float value);
template <class Real>
void copy(Arrays<Real>& t);

}  // namespace flywheel::test::reference

#pragma once

#include <cstdint>

#include "backend/tensor.h"

namespace flywheel {

class AttentionPlan;

// The arguments of every op of the seam, one struct an op.
//
// Letters: T tokens of all sequences packed back to back, d model width, V vocabulary (Vp padded),
// f MLP width, H query heads, Hkv key/value heads, D head size, Q = (H + 2 Hkv) D. f32 unless said.
// A tensor marked "optional" may be an empty view. Destinations come first. Destinations must not
// overlap sources unless a comment allows it. Weight gradients accumulate; activation gradients
// overwrite unless `accumulate` is set.
//
// On a GPU an op may be in bf16: all its tensors then are, but for statistics of rows (mean, rstd,
// lse), losses, gradients of weights, the tables of RoPE and what experts are weighted by: these
// are f32 always. Arithmetic is in f32; what is stored in bf16 is rounded once, to the nearest.

// out = op(a) op(b) [+ out] [+ bias], op(x) = x or its transpose. Accumulates in f32; the sum over
// K has a fixed order whatever the number of threads.
struct Matmul {
  TensorView out;   // [M, N], rows may be strided; f32 also of bf16 a and b
  TensorView a;     // [M, K], or [K, M] if transpose_a; rows may be strided
  TensorView b;     // [K, N], or [N, K] if transpose_b; rows may be strided. On the CPU it may be
                    // BF16 or F16: the bits are those of the same values in F32; or Q8_0 or, if
                    // transpose_b, Q8_0x16: as exact as F32, with other bits where the CPU
                    // multiplies blocks (few_rows with VNNI, rows of blocks with AMX)
  TensorView bias;  // [N], of the type of out, optional; not together with accumulate
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // out += instead of out =
  bool few_rows = false;    // for decoding: reads b once, where it lies. Other bits than without,
                            // but also those of a row whatever the others. Not with transpose_a
};

// dbias += sum of dout over rows.
struct BiasBackward {
  TensorView dbias;  // [N], accumulates
  TensorView dout;   // [T, N]
};

// out[t] = table[ids[t]] (+ position_table[positions[t]])
struct EmbeddingForward {
  TensorView out;             // [T, d]
  TensorView ids;             // [T] i32, each below V
  TensorView table;           // [V, d]; on the CPU also BF16, F16, Q8_0 or Q8_0x16
  TensorView position_table;  // [P, d], optional
  TensorView positions;       // [T] i32, needed with position_table
};

struct EmbeddingBackward {
  TensorView dtable;           // [V, d], accumulates
  TensorView dposition_table;  // [P, d], optional, accumulates
  TensorView dout;             // [T, d]
  TensorView ids;              // [T] i32
  TensorView positions;        // [T] i32, needed with dposition_table
};

// out = x * rstd * weight, rstd = (mean(x^2) + eps)^(-1/2) over each row. Zhang & Sennrich 2019.
struct RmsNormForward {
  TensorView out;     // [T, d]
  TensorView rstd;    // [T], saved for backward
  TensorView x;       // [T, d]
  TensorView weight;  // [d]
  float eps = 1e-5F;
};

// sum = x + residual, then as RmsNormForward on sum.
struct AddRmsNormForward {
  TensorView sum;       // [T, d], may be x or residual
  TensorView out;       // [T, d]
  TensorView rstd;      // [T]
  TensorView x;         // [T, d]
  TensorView residual;  // [T, d]
  TensorView weight;    // [d]
  float eps = 1e-5F;
};

struct RmsNormBackward {
  TensorView dx;            // [T, d]
  TensorView dweight;       // [d], accumulates
  TensorView dout;          // [T, d]
  TensorView x;             // [T, d]
  TensorView rstd;          // [T]
  TensorView weight;        // [d]
  bool accumulate = false;  // dx += instead of dx =
};

// out = (x - mean) * rstd * weight + bias over each row, biased variance. Ba et al. 2016.
struct LayerNormForward {
  TensorView out;     // [T, d]
  TensorView mean;    // [T], saved for backward
  TensorView rstd;    // [T], saved for backward
  TensorView x;       // [T, d]
  TensorView weight;  // [d]
  TensorView bias;    // [d], optional
  float eps = 1e-5F;
};

struct LayerNormBackward {
  TensorView dx;            // [T, d]
  TensorView dweight;       // [d], accumulates
  TensorView dbias;         // [d], accumulates, optional
  TensorView dout;          // [T, d]
  TensorView x;             // [T, d]
  TensorView mean;          // [T]
  TensorView rstd;          // [T]
  TensorView weight;        // [d]
  bool accumulate = false;  // dx += instead of dx =
};

// Takes the fused projections apart: q and k get the per-head RMS norm (if its weights are given),
// then RoPE at `positions` (if tables are given; pairs (m, m + D/2), Su et al. 2021); v is copied.
struct SplitHeadsForward {
  TensorView q;              // [T, H, D], any strides
  TensorView k;              // [T, Hkv, D], any strides
  TensorView v;              // [T, Hkv, D], any strides
  TensorView q_rstd;         // [T, H], saved for backward; with q_norm_weight
  TensorView k_rstd;         // [T, Hkv], saved for backward; with k_norm_weight
  TensorView qkv;            // [T, Q], a row is q heads, k heads, v heads
  TensorView q_norm_weight;  // [D], optional
  TensorView k_norm_weight;  // [D], optional, with q_norm_weight
  TensorView cos;            // [P, D/2], optional
  TensorView sin;            // [P, D/2], with cos
  TensorView positions;      // [T] i32, each below P; with cos
  float eps = 1e-6F;
};

struct SplitHeadsBackward {
  TensorView dqkv;            // [T, Q]
  TensorView dq_norm_weight;  // [D], accumulates, optional
  TensorView dk_norm_weight;  // [D], accumulates, optional
  TensorView dq;              // [T, H, D], any strides
  TensorView dk;              // [T, Hkv, D], any strides
  TensorView dv;              // [T, Hkv, D], any strides
  TensorView qkv;             // [T, Q], as in forward; needed with the norms
  TensorView q_rstd;          // [T, H]
  TensorView k_rstd;          // [T, Hkv]
  TensorView q_norm_weight;   // [D], optional
  TensorView k_norm_weight;   // [D], optional
  TensorView cos;             // [P, D/2], optional
  TensorView sin;             // [P, D/2]
  TensorView positions;       // [T] i32
};

// Softmax attention over the visible sets of the plan. Query head h reads key head h / (H / Hkv).
struct AttentionForward {
  TensorView out;  // [T, H, D], any strides
  TensorView
      lse;       // [H, T], log-sum-exp of the scaled scores (natural logarithm), saved for backward
  TensorView q;  // [T, H, D], any strides
  TensorView k;  // [T, Hkv, D], any strides
  TensorView v;  // [T, Hkv, D], any strides
  const AttentionPlan* plan = nullptr;
  float scale = 0;  // of the scores, 1/sqrt(D)
};

// With tables of RoPE, dq and dk are turned back as in SplitHeadsBackward, after everything else:
// with accumulate, the sums are.
struct AttentionBackward {
  TensorView dq;         // [T, H, D], any strides
  TensorView dk;         // [T, Hkv, D], any strides
  TensorView dv;         // [T, Hkv, D], any strides
  TensorView dout;       // [T, H, D], any strides
  TensorView out;        // [T, H, D], any strides, from forward
  TensorView lse;        // [H, T], from forward
  TensorView q;          // [T, H, D], any strides
  TensorView k;          // [T, Hkv, D], any strides
  TensorView v;          // [T, Hkv, D], any strides
  TensorView cos;        // [P, D/2], optional
  TensorView sin;        // [P, D/2], with cos
  TensorView positions;  // [T] i32, each below P; with cos
  const AttentionPlan* plan = nullptr;
  float scale = 0;
  bool accumulate = false;  // dq, dk, dv += instead of =
};

// Keeps the keys and values of new tokens for later ones: k_cache[slots[t], :, positions[t]] =
// k[t], v likewise. A cache has room for C sequences of up to L positions; a slot is a sequence's
// place.
struct KvCacheWrite {
  TensorView k_cache;    // [C, Hkv, L, D]
  TensorView v_cache;    // [C, Hkv, L, D]
  TensorView k;          // [T, Hkv, D], any strides
  TensorView v;          // [T, Hkv, D], any strides
  TensorView slots;      // [T] i32, each below C
  TensorView positions;  // [T] i32, each below L
};

// Softmax attention of one new token a sequence over cached keys: row t reads slot slots[t] at
// positions[t] (its own) and before. Query head h reads key head h / (H / Hkv).
struct AttentionDecode {
  TensorView out;           // [T, H, D], any strides
  TensorView q;             // [T, H, D], any strides
  TensorView k_cache;       // [C, Hkv, L, D]
  TensorView v_cache;       // [C, Hkv, L, D]
  TensorView slots;         // [T] i32, each below C
  TensorView positions;     // [T] i32, each below L
  std::int64_t window = 0;  // only so many of the latest keys; 0 = all
  float scale = 0;          // of the scores, 1/sqrt(D)
};

// out = sigmoid(a_logits) * a + sigmoid(b_logits) * b, one gate a head or a channel (attention.md
// 4).
struct GateMixForward {
  TensorView out;  // [T, H, D], contiguous
  TensorView a;    // [T, H, D], contiguous
  TensorView b;    // [T, H, D], contiguous
  TensorView
      gate_logits;  // [T, 2 G], a's gates then b's; G = H (one a head) or H D (one a channel)
};

struct GateMixBackward {
  TensorView da;            // [T, H, D], may be dout
  TensorView db;            // [T, H, D]
  TensorView dgate_logits;  // [T, 2 G]
  TensorView dout;          // [T, H, D]
  TensorView a;             // [T, H, D]
  TensorView b;             // [T, H, D]
  TensorView gate_logits;   // [T, 2 G]
};

// out = silu(gate) * up, a row of gate_up is gate then up. Shazeer 2020.
struct SwigluForward {
  TensorView out;      // [T, f]
  TensorView gate_up;  // [T, 2 f]
};

struct SwigluBackward {
  TensorView dgate_up;  // [T, 2 f], may be gate_up
  TensorView dout;      // [T, f]
  TensorView gate_up;   // [T, 2 f]
};

// Mixture of experts (Shazeer et al. 2017; the top-k softmax router of Qwen3). The T K pairs of a
// token and one of its experts are grouped by expert, within a group by token: E groups of rows,
// group e is rows offsets[e] to offsets[e + 1].

// p = softmax(logits) over each row; the K largest, of equal ones the lower expert first.
struct RouteExperts {
  TensorView weights;      // [T, K], p of the chosen, largest first
  TensorView slots;        // [T, K] i32, the grouped row of each pair
  TensorView rows;         // [T K] i32, the token of each grouped row
  TensorView offsets;      // [E + 1] i32
  TensorView logits;       // [T, E]
  bool normalize = false;  // divide the weights by their sum
};

// out = a W_e^T for the rows of each group e.
struct GroupedMatmul {
  TensorView out;         // [R, N]
  TensorView a;           // [R, K]
  TensorView b;           // [E N, K], the experts' weights one after the other
  TensorView offsets;     // [E + 1] i32, from 0 to R
  bool few_rows = false;  // as in Matmul
};

// out[t] = sum over k of weights[t, k] x[slots[t, k]], in the order of k.
struct CombineExperts {
  TensorView out;      // [T, d]
  TensorView x;        // [T K, d]
  TensorView slots;    // [T, K] i32
  TensorView weights;  // [T, K]
};

// The tanh form of GELU (GPT-2's gelu_new). Hendrycks & Gimpel 2016.
struct GeluForward {
  TensorView out;  // [T, f]
  TensorView x;    // [T, f]
};

struct GeluBackward {
  TensorView dx;    // [T, f], may be x
  TensorView dout;  // [T, f]
  TensorView x;     // [T, f]
};

// Per row: loss = logsumexp(logits[0..V)) - logits[target] + z_loss * logsumexp^2; and, in place of
// the logits, gradient_scale * dloss/dlogits (columns V..Vp get 0). gradient_scale 0 leaves the
// logits alone. A target of -1 gives loss 0, a gradient of 0 and the most likely token -1.
struct CrossEntropy {
  TensorView losses;       // [t], without the z-loss term
  TensorView most_likely;  // [t] i32, optional: index of the largest logit, the lowest of equals
  TensorView logits;       // [t, Vp]; overwritten by the gradient
  TensorView targets;      // [t] i32
  std::int64_t vocab_size = 0;
  float gradient_scale = 0;
  float z_loss = 0;
};

// One fused pass of AdamW (Loshchilov & Hutter 2019): g' = g * clip; m = b1 m + (1-b1) g'; v = b2 v
// + (1-b2) g'^2; w = w - lr (m / c1 / (sqrt(v / c2) + eps) + decay w), c = 1 - b^step.
struct AdamWStep {
  TensorView param;       // [n]
  TensorView m;           // [n]
  TensorView v;           // [n]
  TensorView rounded;     // [n] bf16, optional: w as RoundWeights gives it for this step
  TensorView grad;        // [n]
  TensorView clip;        // [1], factor of the gradient, on the device
  std::int64_t step = 1;  // counts from 1
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float weight_decay = 0;
  std::uint64_t rounding_seed = 0;  // with rounded
  std::int64_t first_element = 0;   // of a part: its place in the parameter, for the rounding
};

// out = x in bf16: step 0 to the nearest; else up or down at random, so that x is the mean: element
// i by word i % 4 of Philox block i / 4, keyed by the seed, with the step in the counter.
struct RoundWeights {
  TensorView out;  // [n] bf16
  TensorView x;    // [n]
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

// out[0] = sum of x in f64, in a fixed order.
struct Sum {
  TensorView out;           // [1] f64
  TensorView x;             // contiguous
  bool accumulate = false;  // out += instead of out =
};

// out[0] = sum of squares of x in f64, in a fixed order. Not finite if any element is not.
struct SumOfSquares {
  TensorView out;  // [1] f64
  TensorView x;    // contiguous
};

struct Add {
  TensorView out;  // any shape, contiguous, may be a or b
  TensorView a;
  TensorView b;
};

struct Scale {
  TensorView x;  // contiguous, in place
  float factor = 1;
};

struct Fill {
  TensorView x;  // contiguous f32
  float value = 0;
};

struct Copy {
  TensorView out;  // same shape, dtype and device, both contiguous
  TensorView x;
};

}  // namespace flywheel

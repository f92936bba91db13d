#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/heads.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/rope-inl.h"
#include "cpu/simd_loops-inl.h"
#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

HWY_INLINE float* head_row(const TensorView& heads, std::int64_t token, std::int64_t head) {
  return heads.f32() + token * heads.stride(0) + head * heads.stride(1);
}

// out = x * rstd * weight over one head; returns rstd.
HWY_INLINE float norm_head(float* out, const float* x, const float* weight, std::int64_t size,
                           float eps) {
  const float squares = sum_vectors(size, [&](std::int64_t i, auto lanes, F32Vector sum) HWY_ATTR {
    const auto v = lanes.load(x + i);
    return hn::MulAdd(v, v, sum);
  });
  const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(size) + eps);
  const auto factor = hn::Set(F32(), rstd);
  for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Mul(hn::Mul(lanes.load(x + i), factor), lanes.load(weight + i)), out + i);
  });
  return rstd;
}

// The heads of one kind (q or k) of a token: norm if there are weights, then RoPE if there are
// tables.
HWY_INLINE void split_token(const SplitHeadsForward& args, const TensorView& out,
                            const TensorView& rstd, const TensorView& weight, const float* from,
                            std::int64_t token) {
  const std::int64_t heads = out.shape[1];
  const std::int64_t size = out.shape[2];
  const std::int64_t half = size / 2;
  for (std::int64_t head = 0; head < heads; ++head) {
    float* to = head_row(out, token, head);
    const float* x = from + head * size;
    if (weight) {
      rstd.f32()[token * heads + head] = norm_head(to, x, weight.f32(), size, args.eps);
      x = to;
    }
    if (args.cos) {
      const std::int64_t at = args.positions.i32()[token] * half;
      rotate_head<false>(to, x, args.cos.f32() + at, args.sin.f32() + at, half);
    } else if (!weight) {
      std::copy_n(x, size, to);
    }
  }
}

void split_heads_tokens(const SplitHeadsForward& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = args.q.shape[2];
  const std::int64_t q_width = args.q.shape[1] * size;
  const std::int64_t kv_heads = args.k.shape[1];
  for (std::int64_t token = begin; token < end; ++token) {
    const float* q = args.qkv.f32() + token * args.qkv.shape[1];
    const float* k = q + q_width;
    const float* v = k + kv_heads * size;
    split_token(args, args.q, args.q_rstd, args.q_norm_weight, q, token);
    split_token(args, args.k, args.k_rstd, args.k_norm_weight, k, token);
    for (std::int64_t head = 0; head < kv_heads; ++head) {
      std::copy_n(v + head * size, size, head_row(args.v, token, head));
    }
  }
}

// `gradient` holds dout and gets dx, as in rms_norm_backward.
HWY_INLINE void norm_head_backward(float* gradient, float* dweight, const float* x,
                                   const float* weight, float rstd, std::int64_t size) {
  const F32 d;
  const float dot = sum_vectors(size, [&](std::int64_t i, auto lanes, F32Vector sum) HWY_ATTR {
    return hn::MulAdd(hn::Mul(lanes.load(gradient + i), lanes.load(weight + i)), lanes.load(x + i),
                      sum);
  });
  const auto factor = hn::Set(d, rstd);
  const auto along_x = hn::Set(d, dot * rstd * rstd * rstd / static_cast<float>(size));
  for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto v = lanes.load(x + i);
    const auto scaled = hn::Mul(lanes.load(gradient + i), factor);
    lanes.store(hn::MulAdd(scaled, v, lanes.load(dweight + i)), dweight + i);
    lanes.store(hn::NegMulAdd(along_x, v, hn::Mul(scaled, lanes.load(weight + i))), gradient + i);
  });
}

HWY_INLINE void split_token_backward(const SplitHeadsBackward& args, const TensorView& dout,
                                     const TensorView& rstd, const TensorView& weight, float* to,
                                     const float* x, float* dweight, std::int64_t token) {
  const std::int64_t heads = dout.shape[1];
  const std::int64_t size = dout.shape[2];
  const std::int64_t half = size / 2;
  for (std::int64_t head = 0; head < heads; ++head) {
    const float* from = head_row(dout, token, head);
    float* dx = to + head * size;
    if (args.cos) {
      const std::int64_t at = args.positions.i32()[token] * half;
      rotate_head<true>(dx, from, args.cos.f32() + at, args.sin.f32() + at, half);
    } else {
      std::copy_n(from, size, dx);
    }
    if (weight) {
      norm_head_backward(dx, dweight, x + head * size, weight.f32(),
                         rstd.f32()[token * heads + head], size);
    }
  }
}

// dweight: [2 D], of q then of k; unused without norms.
void split_heads_backward_tokens(const SplitHeadsBackward& args, std::int64_t begin,
                                 std::int64_t end, float* dweight) {
  const std::int64_t size = args.dq.shape[2];
  const std::int64_t q_width = args.dq.shape[1] * size;
  const std::int64_t kv_heads = args.dk.shape[1];
  const std::int64_t row_width = args.dqkv.shape[1];
  float* dk_weight = dweight ? dweight + size : nullptr;
  for (std::int64_t token = begin; token < end; ++token) {
    float* dq = args.dqkv.f32() + token * row_width;
    float* dk = dq + q_width;
    float* dv = dk + kv_heads * size;
    const float* q = dweight ? args.qkv.f32() + token * row_width : nullptr;
    const float* k = dweight ? q + q_width : nullptr;
    split_token_backward(args, args.dq, args.q_rstd, args.q_norm_weight, dq, q, dweight, token);
    split_token_backward(args, args.dk, args.k_rstd, args.k_norm_weight, dk, k, dk_weight, token);
    for (std::int64_t head = 0; head < kv_heads; ++head) {
      std::copy_n(head_row(args.dv, token, head), size, dv + head * size);
    }
  }
}

void gate_mix_tokens(const GateMixForward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const std::int64_t width = args.a.shape[1] * args.a.shape[2];
  const std::int64_t gates = args.gate_logits.shape[1] / 2;
  const std::int64_t size = width / gates;  // channels that share a gate
  for (std::int64_t token = begin; token < end; ++token) {
    const float* a = args.a.f32() + token * width;
    const float* b = args.b.f32() + token * width;
    const float* a_logits = args.gate_logits.f32() + token * 2 * gates;
    const float* b_logits = a_logits + gates;
    float* out = args.out.f32() + token * width;
    if (size == 1) {
      for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
        const auto mixed = hn::Mul(sigmoid(d, lanes.load(b_logits + i)), lanes.load(b + i));
        lanes.store(hn::MulAdd(sigmoid(d, lanes.load(a_logits + i)), lanes.load(a + i), mixed),
                    out + i);
      });
      continue;
    }
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      const auto a_gate = sigmoid(d, hn::Set(d, a_logits[gate]));
      const auto b_gate = sigmoid(d, hn::Set(d, b_logits[gate]));
      const std::int64_t first = gate * size;
      for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
        const auto mixed = hn::Mul(b_gate, lanes.load(b + first + i));
        lanes.store(hn::MulAdd(a_gate, lanes.load(a + first + i), mixed), out + first + i);
      });
    }
  }
}

void gate_mix_backward_tokens(const GateMixBackward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const auto one = hn::Set(d, 1.0F);
  const std::int64_t width = args.a.shape[1] * args.a.shape[2];
  const std::int64_t gates = args.gate_logits.shape[1] / 2;
  const std::int64_t size = width / gates;
  for (std::int64_t token = begin; token < end; ++token) {
    // One path: dx = gate dout, dlogit = gate (1 - gate) sum(dout x).
    const auto path = [&](float* dx, const float* x, const float* dout, const float* logits,
                          float* dlogits) HWY_ATTR {
      if (size == 1) {
        for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
          const auto gate = sigmoid(d, lanes.load(logits + i));
          const auto g = lanes.load(dout + i);
          const auto slope = hn::Mul(gate, hn::Sub(one, gate));
          lanes.store(hn::Mul(slope, hn::Mul(g, lanes.load(x + i))), dlogits + i);
          lanes.store(hn::Mul(gate, g), dx + i);
        });
        return;
      }
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        const auto opening = sigmoid(d, hn::Set(d, logits[gate]));
        const std::int64_t first = gate * size;
        const float dot = sum_vectors(size, [&](std::int64_t i, auto lanes, F32Vector s) HWY_ATTR {
          return hn::MulAdd(lanes.load(dout + first + i), lanes.load(x + first + i), s);
        });
        for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
          lanes.store(hn::Mul(opening, lanes.load(dout + first + i)), dx + first + i);
        });
        dlogits[gate] = dot * hn::GetLane(hn::Mul(opening, hn::Sub(one, opening)));
      }
    };
    const float* dout = args.dout.f32() + token * width;
    const float* logits = args.gate_logits.f32() + token * 2 * gates;
    float* dlogits = args.dgate_logits.f32() + token * 2 * gates;
    // b first: da may be dout.
    path(args.db.f32() + token * width, args.b.f32() + token * width, dout, logits + gates,
         dlogits + gates);
    path(args.da.f32() + token * width, args.a.f32() + token * width, dout, logits, dlogits);
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(split_heads_tokens);
HWY_EXPORT(split_heads_backward_tokens);
HWY_EXPORT(gate_mix_tokens);
HWY_EXPORT(gate_mix_backward_tokens);

void split_heads_forward(const SplitHeadsForward& args, ThreadPool& pool) {
  if (args.cos) {
    check_indices("split_heads_forward: positions", args.positions, args.cos.shape[0]);
  }
  pool.for_range(args.qkv.shape[0], row_grain(args.qkv.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(split_heads_tokens)(args, begin, end);
                 });
}

void split_heads_backward(const SplitHeadsBackward& args, ThreadPool& pool,
                          const Workspace& workspace) {
  if (args.cos) {
    check_indices("split_heads_backward: positions", args.positions, args.cos.shape[0]);
  }
  const std::int64_t tokens = args.dqkv.shape[0];
  if (!args.q_norm_weight) {
    pool.for_range(tokens, row_grain(args.dqkv.shape[1]),
                   [&](std::int64_t begin, std::int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(split_heads_backward_tokens)(args, begin, end, nullptr);
                   });
    return;
  }
  sum_over_row_blocks(
      tokens, args.dq.shape[2], {args.dq_norm_weight.f32(), args.dk_norm_weight.f32()},
      [&](std::int64_t begin, std::int64_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(split_heads_backward_tokens)(args, begin, end, partial);
      },
      pool, workspace);
}

void gate_mix_forward(const GateMixForward& args, ThreadPool& pool) {
  pool.for_range(args.a.shape[0], row_grain(args.a.shape[1] * args.a.shape[2]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(gate_mix_tokens)(args, begin, end);
                 });
}

void gate_mix_backward(const GateMixBackward& args, ThreadPool& pool) {
  pool.for_range(args.a.shape[0], row_grain(args.a.shape[1] * args.a.shape[2]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(gate_mix_backward_tokens)(args, begin, end);
                 });
}

}  // namespace flywheel::cpu
#endif

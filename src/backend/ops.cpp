#include "backend/ops.h"

#include "backend/argument_check.h"
#include "core/interleaved_rows.h"

namespace flywheel::ops {

void matmul(Backend& backend, const Matmul& args) {
  ArgumentCheck op("matmul", backend);
  const auto [M, N] = op.dims<2>("out", args.out);
  const auto a = op.dims<2>("a", args.a);
  const std::int64_t K = a[args.transpose_a ? 0 : 1];
  op.type_like("a", args.a);
  const DType out_type = args.out.dtype == DType::F32 ? DType::F32 : op.type();
  op.strided_out("out", args.out, {M, N}, out_type);
  op.strided_in("a", args.a, args.transpose_a ? Shape{K, M} : Shape{M, K});
  op.weights("b", args.b, args.transpose_b ? Shape{N, K} : Shape{K, N});
  if (args.bias) op.in("bias", args.bias, {N}, out_type);
  if (args.accumulate) op.absent("bias", args.bias, "with accumulate");
  op.that(args.b.dtype != DType::Q8_0x16 || args.transpose_b, "q8_0x16 needs transpose_b");
  op.that(!(args.few_rows && args.transpose_a), "few_rows does not go with transpose_a");
  backend.matmul(args);
}

void bias_backward(Backend& backend, const BiasBackward& args) {
  ArgumentCheck op("bias_backward", backend);
  const auto [T, N] = op.dims<2>("dout", args.dout);
  op.out("dbias", args.dbias, {N}, DType::F32);
  op.in("dout", args.dout, {T, N});
  backend.bias_backward(args);
}

void embedding_forward(Backend& backend, const EmbeddingForward& args) {
  ArgumentCheck op("embedding_forward", backend);
  const auto [T, d] = op.dims<2>("out", args.out);
  op.out("out", args.out, {T, d});
  op.in("ids", args.ids, {T}, DType::I32);
  op.weights("table", args.table, {op.dims<2>("table", args.table)[0], d});
  if (args.position_table) {
    const auto [P, width] = op.dims<2>("position_table", args.position_table);
    op.in("position_table", args.position_table, {P, d});
    op.in("positions", args.positions, {T}, DType::I32);
  }
  backend.embedding_forward(args);
}

void embedding_backward(Backend& backend, const EmbeddingBackward& args) {
  ArgumentCheck op("embedding_backward", backend);
  const auto [T, d] = op.dims<2>("dout", args.dout);
  op.out("dtable", args.dtable, {op.dims<2>("dtable", args.dtable)[0], d}, DType::F32);
  if (args.dposition_table) {
    const auto [P, width] = op.dims<2>("dposition_table", args.dposition_table);
    op.out("dposition_table", args.dposition_table, {P, d}, DType::F32);
    op.in("positions", args.positions, {T}, DType::I32);
  }
  op.in("dout", args.dout, {T, d});
  op.in("ids", args.ids, {T}, DType::I32);
  backend.embedding_backward(args);
}

void rms_norm_forward(Backend& backend, const RmsNormForward& args) {
  ArgumentCheck op("rms_norm_forward", backend);
  const auto [T, d] = op.dims<2>("x", args.x);
  op.out("out", args.out, {T, d});
  op.out("rstd", args.rstd, {T}, DType::F32);
  op.in("x", args.x, {T, d});
  op.in("weight", args.weight, {d});
  backend.rms_norm_forward(args);
}

void add_rms_norm_forward(Backend& backend, const AddRmsNormForward& args) {
  ArgumentCheck op("add_rms_norm_forward", backend);
  op.allow_in_place("sum", "x");
  op.allow_in_place("sum", "residual");
  const auto [T, d] = op.dims<2>("x", args.x);
  op.out("sum", args.sum, {T, d});
  op.out("out", args.out, {T, d});
  op.out("rstd", args.rstd, {T}, DType::F32);
  op.in("x", args.x, {T, d});
  op.in("residual", args.residual, {T, d});
  op.in("weight", args.weight, {d});
  backend.add_rms_norm_forward(args);
}

void rms_norm_backward(Backend& backend, const RmsNormBackward& args) {
  ArgumentCheck op("rms_norm_backward", backend);
  const auto [T, d] = op.dims<2>("x", args.x);
  op.out("dx", args.dx, {T, d});
  op.out("dweight", args.dweight, {d}, DType::F32);
  op.in("dout", args.dout, {T, d});
  op.in("x", args.x, {T, d});
  op.in("rstd", args.rstd, {T}, DType::F32);
  op.in("weight", args.weight, {d});
  backend.rms_norm_backward(args);
}

void layer_norm_forward(Backend& backend, const LayerNormForward& args) {
  ArgumentCheck op("layer_norm_forward", backend);
  const auto [T, d] = op.dims<2>("x", args.x);
  op.out("out", args.out, {T, d});
  op.out("mean", args.mean, {T}, DType::F32);
  op.out("rstd", args.rstd, {T}, DType::F32);
  op.in("x", args.x, {T, d});
  op.in("weight", args.weight, {d});
  if (args.bias) op.in("bias", args.bias, {d});
  backend.layer_norm_forward(args);
}

void layer_norm_backward(Backend& backend, const LayerNormBackward& args) {
  ArgumentCheck op("layer_norm_backward", backend);
  const auto [T, d] = op.dims<2>("x", args.x);
  op.out("dx", args.dx, {T, d});
  op.out("dweight", args.dweight, {d}, DType::F32);
  if (args.dbias) op.out("dbias", args.dbias, {d}, DType::F32);
  op.in("dout", args.dout, {T, d});
  op.in("x", args.x, {T, d});
  op.in("mean", args.mean, {T}, DType::F32);
  op.in("rstd", args.rstd, {T}, DType::F32);
  op.in("weight", args.weight, {d});
  backend.layer_norm_backward(args);
}

namespace {

// cos, sin and positions of RoPE, when given.
template <class Args>
void check_rope(ArgumentCheck& op, const Args& args, std::int64_t T, std::int64_t D) {
  if (!args.cos) {
    op.absent("sin", args.sin, "without cos");
    return;
  }
  op.that(D % 2 == 0, "the head size is odd; expected it even with cos and sin");
  const auto [P, half] = op.dims<2>("cos", args.cos);
  op.in("cos", args.cos, {P, D / 2}, DType::F32);
  op.in("sin", args.sin, {P, D / 2}, DType::F32);
  op.in("positions", args.positions, {T}, DType::I32);
}

}  // namespace

void split_heads_forward(Backend& backend, const SplitHeadsForward& args) {
  ArgumentCheck op("split_heads_forward", backend);
  const auto [T, H, D] = op.dims<3>("q", args.q);
  const std::int64_t Hkv = op.dims<3>("k", args.k)[1];
  op.strided_out("q", args.q, {T, H, D});
  op.strided_out("k", args.k, {T, Hkv, D});
  op.strided_out("v", args.v, {T, Hkv, D});
  if (args.q_norm_weight || args.k_norm_weight) {
    op.out("q_rstd", args.q_rstd, {T, H}, DType::F32);
    op.out("k_rstd", args.k_rstd, {T, Hkv}, DType::F32);
    op.in("q_norm_weight", args.q_norm_weight, {D});
    op.in("k_norm_weight", args.k_norm_weight, {D});
  }
  op.in("qkv", args.qkv, {T, (H + 2 * Hkv) * D});
  check_rope(op, args, T, D);
  backend.split_heads_forward(args);
}

void split_heads_backward(Backend& backend, const SplitHeadsBackward& args) {
  ArgumentCheck op("split_heads_backward", backend);
  const auto [T, H, D] = op.dims<3>("dq", args.dq);
  const std::int64_t Hkv = op.dims<3>("dk", args.dk)[1];
  op.out("dqkv", args.dqkv, {T, (H + 2 * Hkv) * D});
  const bool norm = args.q_norm_weight || args.k_norm_weight;
  if (norm) {
    op.out("dq_norm_weight", args.dq_norm_weight, {D}, DType::F32);
    op.out("dk_norm_weight", args.dk_norm_weight, {D}, DType::F32);
  }
  op.strided_in("dq", args.dq, {T, H, D});
  op.strided_in("dk", args.dk, {T, Hkv, D});
  op.strided_in("dv", args.dv, {T, Hkv, D});
  if (norm) {
    op.in("qkv", args.qkv, {T, (H + 2 * Hkv) * D});
    op.in("q_rstd", args.q_rstd, {T, H}, DType::F32);
    op.in("k_rstd", args.k_rstd, {T, Hkv}, DType::F32);
    op.in("q_norm_weight", args.q_norm_weight, {D});
    op.in("k_norm_weight", args.k_norm_weight, {D});
  }
  check_rope(op, args, T, D);
  backend.split_heads_backward(args);
}

void attention_forward(Backend& backend, const AttentionForward& args) {
  ArgumentCheck op("attention_forward", backend);
  const auto [T, H, D] = op.dims<3>("q", args.q);
  const std::int64_t Hkv = op.dims<3>("k", args.k)[1];
  op.that(Hkv > 0 && H % Hkv == 0, "the heads of q are not a multiple of the heads of k");
  op.strided_out("out", args.out, {T, H, D});
  op.out("lse", args.lse, {H, T}, DType::F32);
  op.strided_in("q", args.q, {T, H, D});
  op.strided_in("k", args.k, {T, Hkv, D});
  op.strided_in("v", args.v, {T, Hkv, D});
  op.that(args.plan != nullptr, "plan is missing");
  backend.attention_forward(args);
}

void attention_backward(Backend& backend, const AttentionBackward& args) {
  ArgumentCheck op("attention_backward", backend);
  const auto [T, H, D] = op.dims<3>("q", args.q);
  const std::int64_t Hkv = op.dims<3>("k", args.k)[1];
  op.that(Hkv > 0 && H % Hkv == 0, "the heads of q are not a multiple of the heads of k");
  op.strided_out("dq", args.dq, {T, H, D});
  op.strided_out("dk", args.dk, {T, Hkv, D});
  op.strided_out("dv", args.dv, {T, Hkv, D});
  op.strided_in("dout", args.dout, {T, H, D});
  op.strided_in("out", args.out, {T, H, D});
  op.in("lse", args.lse, {H, T}, DType::F32);
  op.strided_in("q", args.q, {T, H, D});
  op.strided_in("k", args.k, {T, Hkv, D});
  op.strided_in("v", args.v, {T, Hkv, D});
  check_rope(op, args, T, D);
  op.that(args.plan != nullptr, "plan is missing");
  backend.attention_backward(args);
}

void kv_cache_write(Backend& backend, const KvCacheWrite& args) {
  ArgumentCheck op("kv_cache_write", backend);
  const auto [T, Hkv, D] = op.dims<3>("k", args.k);
  const auto [C, heads, L, size] = op.dims<4>("k_cache", args.k_cache);
  op.out("k_cache", args.k_cache, {C, Hkv, L, D});
  op.out("v_cache", args.v_cache, {C, Hkv, L, D});
  op.strided_in("k", args.k, {T, Hkv, D});
  op.strided_in("v", args.v, {T, Hkv, D});
  op.in("slots", args.slots, {T}, DType::I32);
  op.in("positions", args.positions, {T}, DType::I32);
  backend.kv_cache_write(args);
}

void attention_decode(Backend& backend, const AttentionDecode& args) {
  ArgumentCheck op("attention_decode", backend);
  const auto [T, H, D] = op.dims<3>("q", args.q);
  const auto [C, Hkv, L, size] = op.dims<4>("k_cache", args.k_cache);
  op.that(Hkv > 0 && H % Hkv == 0, "the heads of q are not a multiple of the heads of k_cache");
  op.that(args.window >= 0, "window is negative");
  op.strided_out("out", args.out, {T, H, D});
  op.strided_in("q", args.q, {T, H, D});
  op.in("k_cache", args.k_cache, {C, Hkv, L, D});
  op.in("v_cache", args.v_cache, {C, Hkv, L, D});
  op.in("slots", args.slots, {T}, DType::I32);
  op.in("positions", args.positions, {T}, DType::I32);
  backend.attention_decode(args);
}

namespace {

// The extents of gate_logits: one gate a head or one a channel.
Shape gate_shape(const ArgumentCheck& op, std::int64_t T, std::int64_t H, std::int64_t D,
                 std::int64_t width) {
  op.that(width == 2 * H || width == 2 * H * D,
          "gate_logits has neither one gate a head nor one a channel");
  return {T, width};
}

}  // namespace

void gate_mix_forward(Backend& backend, const GateMixForward& args) {
  ArgumentCheck op("gate_mix_forward", backend);
  const auto [T, H, D] = op.dims<3>("a", args.a);
  const std::int64_t width = op.dims<2>("gate_logits", args.gate_logits)[1];
  op.out("out", args.out, {T, H, D});
  op.in("a", args.a, {T, H, D});
  op.in("b", args.b, {T, H, D});
  op.in("gate_logits", args.gate_logits, gate_shape(op, T, H, D, width));
  backend.gate_mix_forward(args);
}

void gate_mix_backward(Backend& backend, const GateMixBackward& args) {
  ArgumentCheck op("gate_mix_backward", backend);
  op.allow_in_place("da", "dout");
  const auto [T, H, D] = op.dims<3>("a", args.a);
  const std::int64_t width = op.dims<2>("gate_logits", args.gate_logits)[1];
  op.out("da", args.da, {T, H, D});
  op.out("db", args.db, {T, H, D});
  op.out("dgate_logits", args.dgate_logits, gate_shape(op, T, H, D, width));
  op.in("dout", args.dout, {T, H, D});
  op.in("a", args.a, {T, H, D});
  op.in("b", args.b, {T, H, D});
  op.in("gate_logits", args.gate_logits, {T, width});
  backend.gate_mix_backward(args);
}

void swiglu_forward(Backend& backend, const SwigluForward& args) {
  ArgumentCheck op("swiglu_forward", backend);
  const auto [T, f] = op.dims<2>("out", args.out);
  op.out("out", args.out, {T, f});
  op.in("gate_up", args.gate_up, {T, 2 * f});
  backend.swiglu_forward(args);
}

void swiglu_backward(Backend& backend, const SwigluBackward& args) {
  ArgumentCheck op("swiglu_backward", backend);
  op.allow_in_place("dgate_up", "gate_up");
  const auto [T, f] = op.dims<2>("dout", args.dout);
  op.out("dgate_up", args.dgate_up, {T, 2 * f});
  op.in("dout", args.dout, {T, f});
  op.in("gate_up", args.gate_up, {T, 2 * f});
  backend.swiglu_backward(args);
}

void route_experts(Backend& backend, const RouteExperts& args) {
  ArgumentCheck op("route_experts", backend);
  const auto [T, E] = op.dims<2>("logits", args.logits);
  const std::int64_t K = op.dims<2>("weights", args.weights)[1];
  op.that(1 <= K && K <= E, "the experts of a token are 1 to all of them");
  op.out("weights", args.weights, {T, K}, DType::F32);
  op.out("slots", args.slots, {T, K}, DType::I32);
  op.out("rows", args.rows, {T * K}, DType::I32);
  op.out("offsets", args.offsets, {E + 1}, DType::I32);
  op.in("logits", args.logits, {T, E}, DType::F32);
  backend.route_experts(args);
}

void grouped_matmul(Backend& backend, const GroupedMatmul& args) {
  ArgumentCheck op("grouped_matmul", backend);
  const auto [R, N] = op.dims<2>("out", args.out);
  const std::int64_t K = op.dims<2>("a", args.a)[1];
  const std::int64_t E = op.dims<1>("offsets", args.offsets)[0] - 1;
  op.out("out", args.out, {R, N});
  op.in("a", args.a, {R, K});
  op.weights("b", args.b, {E * N, K});
  op.that(args.b.dtype != DType::Q8_0x16 || N % kInterleavedRows == 0,
          "experts of interleaved rows have a multiple of 16 of them");
  op.in("offsets", args.offsets, {E + 1}, DType::I32);
  backend.grouped_matmul(args);
}

void combine_experts(Backend& backend, const CombineExperts& args) {
  ArgumentCheck op("combine_experts", backend);
  const auto [T, d] = op.dims<2>("out", args.out);
  const std::int64_t K = op.dims<2>("weights", args.weights)[1];
  op.out("out", args.out, {T, d});
  op.in("x", args.x, {T * K, d});
  op.in("slots", args.slots, {T, K}, DType::I32);
  op.in("weights", args.weights, {T, K}, DType::F32);
  backend.combine_experts(args);
}

void gelu_forward(Backend& backend, const GeluForward& args) {
  ArgumentCheck op("gelu_forward", backend);
  const auto [T, f] = op.dims<2>("x", args.x);
  op.out("out", args.out, {T, f});
  op.in("x", args.x, {T, f});
  backend.gelu_forward(args);
}

void gelu_backward(Backend& backend, const GeluBackward& args) {
  ArgumentCheck op("gelu_backward", backend);
  op.allow_in_place("dx", "x");
  const auto [T, f] = op.dims<2>("x", args.x);
  op.out("dx", args.dx, {T, f});
  op.in("dout", args.dout, {T, f});
  op.in("x", args.x, {T, f});
  backend.gelu_backward(args);
}

void cross_entropy(Backend& backend, const CrossEntropy& args) {
  ArgumentCheck op("cross_entropy", backend);
  const auto [t, Vp] = op.dims<2>("logits", args.logits);
  op.that(0 < args.vocab_size && args.vocab_size <= Vp,
          "vocab_size is not within 1 and the columns of logits");
  op.out("losses", args.losses, {t}, DType::F32);
  if (args.most_likely) op.out("most_likely", args.most_likely, {t}, DType::I32);
  op.out("logits", args.logits, {t, Vp});
  op.in("targets", args.targets, {t}, DType::I32);
  backend.cross_entropy(args);
}

void adamw_step(Backend& backend, const AdamWStep& args) {
  ArgumentCheck op("adamw_step", backend);
  const auto [n] = op.dims<1>("param", args.param);
  op.that(args.step >= 1, "step is below 1; steps count from 1");
  op.that(args.first_element >= 0, "first_element is negative");
  op.out("param", args.param, {n}, DType::F32);
  op.out("m", args.m, {n}, DType::F32);
  op.out("v", args.v, {n}, DType::F32);
  if (args.rounded) {
    op.type_like("rounded", args.rounded);
    op.out("rounded", args.rounded, {n}, DType::BF16);
  }
  op.in("grad", args.grad, {n}, DType::F32);
  op.in("clip", args.clip, {1}, DType::F32);
  backend.adamw_step(args);
}

void round_weights(Backend& backend, const RoundWeights& args) {
  ArgumentCheck op("round_weights", backend);
  const auto [n] = op.dims<1>("out", args.out);
  op.that(args.step >= 0, "step is negative");
  op.out("out", args.out, {n}, DType::BF16);
  op.in("x", args.x, {n}, DType::F32);
  backend.round_weights(args);
}

void sum(Backend& backend, const Sum& args) {
  ArgumentCheck op("sum", backend);
  op.out("out", args.out, {1}, DType::F64);
  op.in("x", args.x, args.x.shape);
  backend.sum(args);
}

void sum_of_squares(Backend& backend, const SumOfSquares& args) {
  ArgumentCheck op("sum_of_squares", backend);
  op.out("out", args.out, {1}, DType::F64);
  op.in("x", args.x, args.x.shape);
  backend.sum_of_squares(args);
}

void add(Backend& backend, const Add& args) {
  ArgumentCheck op("add", backend);
  op.allow_in_place("out", "a");
  op.allow_in_place("out", "b");
  op.type_like("out", args.out);
  op.out("out", args.out, args.out.shape);
  op.in("a", args.a, args.out.shape);
  op.in("b", args.b, args.out.shape);
  backend.add(args);
}

void scale(Backend& backend, const Scale& args) {
  ArgumentCheck op("scale", backend);
  op.type_like("x", args.x);
  op.out("x", args.x, args.x.shape);
  backend.scale(args);
}

void fill(Backend& backend, const Fill& args) {
  ArgumentCheck op("fill", backend);
  op.out("x", args.x, args.x.shape);
  backend.fill(args);
}

void copy(Backend& backend, const Copy& args) {
  ArgumentCheck op("copy", backend);
  op.out("out", args.out, args.out.shape, args.out.dtype);
  op.in("x", args.x, args.out.shape, args.out.dtype);
  backend.copy(args);
}

}  // namespace flywheel::ops

#include <algorithm>
#include <cmath>

#include "backend/ops.h"
#include "parity/draft.h"
#include "support/reference_ops.h"

namespace flywheel::test {
namespace {

struct Heads {
  std::int64_t T, H, Hkv, D;
  Shape q() const { return {T, H, D}; }
  Shape kv() const { return {T, Hkv, D}; }
  Shape qkv() const { return {T, (H + 2 * Hkv) * D}; }
};

Heads draw_heads(Draft& c) {
  const std::int64_t T = c.tokens();
  const std::int64_t Hkv = c.size("Hkv", {1, 2, 3});
  const std::int64_t H = Hkv * c.size("group", {1, 2, 4});
  return {T, H, Hkv, c.size("D", {2, 6, 16, 32, 34, 64})};
}

// Tables of 9 positions.
void add_rope(Draft& c, const Heads& heads) {
  c.in("cos", {9, heads.D / 2});
  c.in("sin", {9, heads.D / 2});
  for (std::size_t i = 0; i < c.find("cos").initial.values.size(); ++i) {
    const double angle = c.normal();
    c.find("cos").initial.values[i] = static_cast<double>(static_cast<float>(std::cos(angle)));
    c.find("sin").initial.values[i] = static_cast<double>(static_cast<float>(std::sin(angle)));
  }
  c.indices("positions", heads.T, 9);
}

OpCase split_heads_forward(std::uint32_t seed) {
  Draft c("split_heads_forward", seed);
  const Heads heads = draw_heads(c);
  const Layout layout = c.layout("heads_first", Layout::kHeadsFirst);
  c.out("q", heads.q(), layout);
  c.out("k", heads.kv(), layout);
  c.out("v", heads.kv(), layout);
  c.in("qkv", heads.qkv());
  if (c.flag("norm")) {
    c.out("q_rstd", {heads.T, heads.H});
    c.out("k_rstd", {heads.T, heads.Hkv});
    c.in("q_norm_weight", {heads.D});
    c.in("k_norm_weight", {heads.D});
  }
  if (c.flag("rope")) add_rope(c, heads);
  c->run = [](Backend& backend, const Views& v) {
    ops::split_heads_forward(backend, {.q = v["q"],
                                       .k = v["k"],
                                       .v = v["v"],
                                       .q_rstd = v["q_rstd"],
                                       .k_rstd = v["k_rstd"],
                                       .qkv = v["qkv"],
                                       .q_norm_weight = v["q_norm_weight"],
                                       .k_norm_weight = v["k_norm_weight"],
                                       .cos = v["cos"],
                                       .sin = v["sin"],
                                       .positions = v["positions"],
                                       .eps = 1e-6F});
  };
  c->expect([](auto& t) { reference::split_heads_forward(t, 1e-6F); });
  return c.finish();
}

OpCase split_heads_backward(std::uint32_t seed) {
  Draft c("split_heads_backward", seed);
  const Heads heads = draw_heads(c);
  const Layout layout = c.layout("heads_first", Layout::kHeadsFirst);
  c.out("dqkv", heads.qkv());
  c.in("dq", heads.q(), layout);
  c.in("dk", heads.kv(), layout);
  c.in("dv", heads.kv(), layout);
  if (c.flag("norm")) {
    c.in_out("dq_norm_weight", {heads.D});
    c.in_out("dk_norm_weight", {heads.D});
    c.in("qkv", heads.qkv());
    c.in("q_rstd", {heads.T, heads.H});  // any numbers do
    c.in("k_rstd", {heads.T, heads.Hkv});
    c.in("q_norm_weight", {heads.D});
    c.in("k_norm_weight", {heads.D});
  }
  if (c.flag("rope")) add_rope(c, heads);
  c->scale_floor = 1;
  c->run = [](Backend& backend, const Views& v) {
    ops::split_heads_backward(backend, {.dqkv = v["dqkv"],
                                        .dq_norm_weight = v["dq_norm_weight"],
                                        .dk_norm_weight = v["dk_norm_weight"],
                                        .dq = v["dq"],
                                        .dk = v["dk"],
                                        .dv = v["dv"],
                                        .qkv = v["qkv"],
                                        .q_rstd = v["q_rstd"],
                                        .k_rstd = v["k_rstd"],
                                        .q_norm_weight = v["q_norm_weight"],
                                        .k_norm_weight = v["k_norm_weight"],
                                        .cos = v["cos"],
                                        .sin = v["sin"],
                                        .positions = v["positions"]});
  };
  c->expect([](auto& t) { reference::split_heads_backward(t); });
  return c.finish();
}

Shape gates_shape(Draft& c, const Heads& heads) {
  const bool channel = c.flag("channel_gates");
  return {heads.T, 2 * heads.H * (channel ? heads.D : 1)};
}

OpCase gate_mix_forward(std::uint32_t seed) {
  Draft c("gate_mix_forward", seed);
  const Heads heads = draw_heads(c);
  c.out("out", heads.q());
  c.in("a", heads.q());
  c.in("b", heads.q());
  c.in("gate_logits", gates_shape(c, heads));
  c->run = [](Backend& backend, const Views& v) {
    ops::gate_mix_forward(
        backend, {.out = v["out"], .a = v["a"], .b = v["b"], .gate_logits = v["gate_logits"]});
  };
  c->expect([](auto& t) { reference::gate_mix_forward(t); });
  return c.finish();
}

OpCase gate_mix_backward(std::uint32_t seed) {
  Draft c("gate_mix_backward", seed);
  const Heads heads = draw_heads(c);
  const Shape gates = gates_shape(c, heads);
  c.out("da", heads.q());
  c.out("db", heads.q());
  c.out("dgate_logits", gates);
  c.in("dout", heads.q());
  c.in("a", heads.q());
  c.in("b", heads.q());
  c.in("gate_logits", gates);
  if (c.flag("in_place")) c.in_place("da", "dout");
  c->run = [](Backend& backend, const Views& v) {
    ops::gate_mix_backward(backend, {.da = v["da"],
                                     .db = v["db"],
                                     .dgate_logits = v["dgate_logits"],
                                     .dout = v["dout"],
                                     .a = v["a"],
                                     .b = v["b"],
                                     .gate_logits = v["gate_logits"]});
  };
  c->expect([](auto& t) { reference::gate_mix_backward(t); });
  return c.finish();
}

OpCase swiglu_forward(std::uint32_t seed) {
  Draft c("swiglu_forward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t f = c.width();
  c.out("out", {T, f});
  c.in("gate_up", {T, 2 * f});
  c->run = [](Backend& backend, const Views& v) {
    ops::swiglu_forward(backend, {.out = v["out"], .gate_up = v["gate_up"]});
  };
  c->expect([](auto& t) { reference::swiglu_forward(t); });
  return c.finish();
}

OpCase swiglu_backward(std::uint32_t seed) {
  Draft c("swiglu_backward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t f = c.width();
  c.out("dgate_up", {T, 2 * f});
  c.in("dout", {T, f});
  c.in("gate_up", {T, 2 * f});
  if (c.flag("in_place")) c.in_place("dgate_up", "gate_up");
  c->run = [](Backend& backend, const Views& v) {
    ops::swiglu_backward(backend,
                         {.dgate_up = v["dgate_up"], .dout = v["dout"], .gate_up = v["gate_up"]});
  };
  c->expect([](auto& t) { reference::swiglu_backward(t); });
  return c.finish();
}

OpCase gelu_forward(std::uint32_t seed) {
  Draft c("gelu_forward", seed);
  const Shape shape{c.tokens(), c.width()};
  c.out("out", shape);
  c.in("x", shape);
  c->run = [](Backend& backend, const Views& v) {
    ops::gelu_forward(backend, {.out = v["out"], .x = v["x"]});
  };
  c->expect([](auto& t) { reference::gelu_forward(t); });
  return c.finish();
}

OpCase gelu_backward(std::uint32_t seed) {
  Draft c("gelu_backward", seed);
  const Shape shape{c.tokens(), c.width()};
  c.out("dx", shape);
  c.in("dout", shape);
  c.in("x", shape);
  if (c.flag("in_place")) c.in_place("dx", "x");
  c->run = [](Backend& backend, const Views& v) {
    ops::gelu_backward(backend, {.dx = v["dx"], .dout = v["dout"], .x = v["x"]});
  };
  c->expect([](auto& t) { reference::gelu_backward(t); });
  return c.finish();
}

OpCase cross_entropy(std::uint32_t seed) {
  Draft c("cross_entropy", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t vocab = c.size("V", {1, 2, 15, 64, 77, 1003});
  const std::int64_t padding = c.size("padding", {0, 1, 29});
  const reference::CrossEntropyOptions o{vocab, c.flag("gradient") ? 0.25F : 0.0F,
                                         c.flag("z_loss") ? 1e-2F : 0.0F};
  c.out("losses", {T});
  if (c.flag("most_likely")) c.add("most_likely", Role::kOutput, {T}).dtype = DType::I32;
  c.in_out("logits", {T, vocab + padding});
  c.indices("targets", T, vocab, -1);
  const double spread = static_cast<double>(c.size("spread", {1, 16}));
  const bool ties = c.flag("ties");
  for (double& x : c.find("logits").initial.values) {
    x = spread * (ties ? std::min(1.0, std::round(x)) : x);
  }
  c->scale_floor = spread;
  c->run = [o](Backend& backend, const Views& v) {
    ops::cross_entropy(backend, {.losses = v["losses"],
                                 .most_likely = v["most_likely"],
                                 .logits = v["logits"],
                                 .targets = v["targets"],
                                 .vocab_size = o.vocab_size,
                                 .gradient_scale = o.gradient_scale,
                                 .z_loss = o.z_loss});
  };
  c->expect([o](auto& t) { reference::cross_entropy(t, o); });
  return c.finish();
}

OpCase adamw_step(std::uint32_t seed) {
  Draft c("adamw_step", seed);
  const std::int64_t n = c.size("n", {1, 7, 16, 33, 1000, 40001});
  reference::AdamWOptions o;
  o.step = c.size("step", {1, 2, 100});
  o.learning_rate = 0.1F;
  o.weight_decay = c.flag("decay") ? 0.1F : 0.0F;
  c.in_out("param", {n});
  c.in_out("m", {n});
  c.in_out("v", {n});
  for (double& v : c.find("v").initial.values) v = std::abs(v);
  c.in("grad", {n});
  c.in("clip", {1});
  c->run = [o](Backend& backend, const Views& v) {
    ops::adamw_step(backend, {.param = v["param"],
                              .m = v["m"],
                              .v = v["v"],
                              .grad = v["grad"],
                              .clip = v["clip"],
                              .step = o.step,
                              .learning_rate = o.learning_rate,
                              .beta1 = o.beta1,
                              .beta2 = o.beta2,
                              .eps = o.eps,
                              .weight_decay = o.weight_decay});
  };
  c->expect([o](auto& t) { reference::adamw_step(t, o); });
  return c.finish();
}

// An op that promises f64 is held to that but for the order of the sum.
template <class F>
void expect_f64(OpCase& op_case, const F& f) {
  op_case.reference = f;
  op_case.naive = [f](Arrays<float>& t) {
    Arrays<double> exact;
    for (const char* name : {"x", "out"}) {
      exact[name] = Array<double>(t[name].shape);
      std::copy(t[name].values.begin(), t[name].values.end(), exact[name].values.begin());
    }
    f(exact);
    t["out"](0) = static_cast<float>(exact["out"](0));
  };
}

OpCase sum(std::uint32_t seed) {
  Draft c("sum", seed);
  const bool accumulate = c.flag("accumulate");
  c.add("out", accumulate ? Role::kInputOutput : Role::kOutput, {1}).dtype = DType::F64;
  c.in("x", {c.size("n", {1, 5, 16, 35, 40001, 70000})});
  c->run = [accumulate](Backend& backend, const Views& v) {
    ops::sum(backend, {.out = v["out"], .x = v["x"], .accumulate = accumulate});
  };
  expect_f64(*c.operator->(), [accumulate](auto& t) { reference::sum(t, accumulate); });
  return c.finish();
}

OpCase sum_of_squares(std::uint32_t seed) {
  Draft c("sum_of_squares", seed);
  c.add("out", Role::kOutput, {1}).dtype = DType::F64;
  c.in("x", {c.size("n", {1, 5, 16, 35, 40001, 70000})});
  c->run = [](Backend& backend, const Views& v) {
    ops::sum_of_squares(backend, {.out = v["out"], .x = v["x"]});
  };
  expect_f64(*c.operator->(), [](auto& t) { reference::sum_of_squares(t); });
  return c.finish();
}

OpCase add(std::uint32_t seed) {
  Draft c("add", seed);
  const Shape shape{c.tokens(), c.width()};
  c.out("out", shape);
  c.in("a", shape);
  c.in("b", shape);
  if (c.flag("in_place")) c.in_place("out", c.flag("a") ? "a" : "b");
  c->run = [](Backend& backend, const Views& v) {
    ops::add(backend, {.out = v["out"], .a = v["a"], .b = v["b"]});
  };
  c->expect([](auto& t) { reference::add(t); });
  return c.finish();
}

OpCase scale(std::uint32_t seed) {
  Draft c("scale", seed);
  c.in_out("x", {c.tokens(), c.width()});
  c->run = [](Backend& backend, const Views& v) {
    ops::scale(backend, {.x = v["x"], .factor = 0.3F});
  };
  c->expect([](auto& t) { reference::scale(t, 0.3F); });
  return c.finish();
}

OpCase fill(std::uint32_t seed) {
  Draft c("fill", seed);
  c.out("x", {c.tokens(), c.width()});
  c->run = [](Backend& backend, const Views& v) {
    ops::fill(backend, {.x = v["x"], .value = 0.7F});
  };
  c->expect([](auto& t) { reference::fill(t, 0.7F); });
  return c.finish();
}

OpCase copy(std::uint32_t seed) {
  Draft c("copy", seed);
  const Shape shape{c.tokens(), c.width()};
  c.out("out", shape);
  c.in("x", shape);
  c->run = [](Backend& backend, const Views& v) {
    ops::copy(backend, {.out = v["out"], .x = v["x"]});
  };
  c->expect([](auto& t) { reference::copy(t); });
  return c.finish();
}

}  // namespace

std::vector<OpCase> model_op_cases() {
  std::vector<OpCase> cases;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    for (const auto make : {split_heads_forward, split_heads_backward, gate_mix_forward,
                            gate_mix_backward, swiglu_forward, swiglu_backward, gelu_forward,
                            gelu_backward, cross_entropy, adamw_step}) {
      cases.push_back(make(seed));
    }
  }
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    for (const auto make : {sum, sum_of_squares, add, scale, fill, copy}) {
      cases.push_back(make(seed));
    }
  }
  return cases;
}

}  // namespace flywheel::test

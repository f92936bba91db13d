#include "backend/ops.h"
#include "parity/draft.h"
#include "support/reference_ops.h"

namespace flywheel::test {
namespace {

OpCase matmul(std::uint32_t seed) {
  Draft c("matmul", seed);
  const std::int64_t M = c.size("M", {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 48, 97, 230});
  const std::int64_t N = c.size("N", {1, 4, 16, 31, 32, 33, 70, 129});
  const std::int64_t K = c.size("K", {1, 3, 16, 63, 255, 256, 257, 600});
  const reference::MatmulOptions o{c.flag("transpose_a"), c.flag("transpose_b"),
                                   c.flag("accumulate")};
  const bool few_rows = !o.transpose_a && c.flag("few_rows");
  const Layout layout = c.layout("padded", Layout::kPaddedRows);
  c.add("out", o.accumulate ? Role::kInputOutput : Role::kOutput, {M, N}, layout);
  c.in("a", o.transpose_a ? Shape{K, M} : Shape{M, K}, layout);
  c.in("b", o.transpose_b ? Shape{N, K} : Shape{K, N}, layout);
  if (!o.accumulate && c.flag("bias")) c.in("bias", {N});
  c->run = [o, few_rows](Backend& backend, const Views& v) {
    ops::matmul(backend, {.out = v["out"],
                          .a = v["a"],
                          .b = v["b"],
                          .bias = v["bias"],
                          .transpose_a = o.transpose_a,
                          .transpose_b = o.transpose_b,
                          .accumulate = o.accumulate,
                          .few_rows = few_rows});
  };
  c->expect([o](auto& t) { reference::matmul(t, o); });
  return c.finish();
}

OpCase bias_backward(std::uint32_t seed) {
  Draft c("bias_backward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t N = c.width();
  c.in_out("dbias", {N});
  c.in("dout", {T, N});
  c->run = [](Backend& backend, const Views& v) {
    ops::bias_backward(backend, {.dbias = v["dbias"], .dout = v["dout"]});
  };
  c->expect([](auto& t) { reference::bias_backward(t); });
  return c.finish();
}

OpCase embedding_forward(std::uint32_t seed) {
  Draft c("embedding_forward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  c.out("out", {T, d});
  c.indices("ids", T, 11);
  c.in("table", {11, d});
  if (c.flag("positions")) {
    c.in("position_table", {5, d});
    c.indices("positions", T, 5);
  }
  c->run = [](Backend& backend, const Views& v) {
    ops::embedding_forward(backend, {.out = v["out"],
                                     .ids = v["ids"],
                                     .table = v["table"],
                                     .position_table = v["position_table"],
                                     .positions = v["positions"]});
  };
  c->expect([](auto& t) { reference::embedding_forward(t); });
  return c.finish();
}

OpCase embedding_backward(std::uint32_t seed) {
  Draft c("embedding_backward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  c.in_out("dtable", {11, d});
  c.in("dout", {T, d});
  c.indices("ids", T, 11);
  if (c.flag("positions")) {
    c.in_out("dposition_table", {5, d});
    c.indices("positions", T, 5);
  }
  c->run = [](Backend& backend, const Views& v) {
    ops::embedding_backward(backend, {.dtable = v["dtable"],
                                      .dposition_table = v["dposition_table"],
                                      .dout = v["dout"],
                                      .ids = v["ids"],
                                      .positions = v["positions"]});
  };
  c->expect([](auto& t) { reference::embedding_backward(t); });
  return c.finish();
}

OpCase rms_norm_forward(std::uint32_t seed) {
  Draft c("rms_norm_forward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  c.out("out", {T, d});
  c.out("rstd", {T});
  c.in("x", {T, d});
  c.in("weight", {d});
  c->run = [](Backend& backend, const Views& v) {
    ops::rms_norm_forward(
        backend,
        {.out = v["out"], .rstd = v["rstd"], .x = v["x"], .weight = v["weight"], .eps = 1e-5F});
  };
  c->expect([](auto& t) { reference::rms_norm_forward(t, 1e-5F); });
  return c.finish();
}

// The fused op or, for backends that fuse it, its default composition.
OpCase add_rms_norm_forward(std::uint32_t seed) {
  Draft c("add_rms_norm_forward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  c.out("sum", {T, d});
  c.out("out", {T, d});
  c.out("rstd", {T});
  c.in("x", {T, d});
  c.in("residual", {T, d});
  c.in("weight", {d});
  if (c.flag("in_place")) c.in_place("sum", c.flag("x") ? "x" : "residual");
  const bool composed = c.flag("composed");
  c->run = [composed](Backend& backend, const Views& v) {
    const AddRmsNormForward args{.sum = v["sum"],
                                 .out = v["out"],
                                 .rstd = v["rstd"],
                                 .x = v["x"],
                                 .residual = v["residual"],
                                 .weight = v["weight"],
                                 .eps = 1e-5F};
    if (composed) {
      backend.Backend::add_rms_norm_forward(args);
    } else {
      ops::add_rms_norm_forward(backend, args);
    }
  };
  c->expect([](auto& t) { reference::add_rms_norm_forward(t, 1e-5F); });
  return c.finish();
}

OpCase rms_norm_backward(std::uint32_t seed) {
  Draft c("rms_norm_backward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  const bool accumulate = c.flag("accumulate");
  c.add("dx", accumulate ? Role::kInputOutput : Role::kOutput, {T, d});
  c.in_out("dweight", {d});
  c.in("dout", {T, d});
  c.in("x", {T, d});
  c.in("weight", {d});
  c.saved("rstd", {T}, [](auto& t) { reference::rms_norm_forward(t, 1e-5F); });
  c->scale_floor = 1;
  c->run = [accumulate](Backend& backend, const Views& v) {
    ops::rms_norm_backward(backend, {.dx = v["dx"],
                                     .dweight = v["dweight"],
                                     .dout = v["dout"],
                                     .x = v["x"],
                                     .rstd = v["rstd"],
                                     .weight = v["weight"],
                                     .accumulate = accumulate});
  };
  c->expect([accumulate](auto& t) { reference::rms_norm_backward(t, accumulate); });
  return c.finish();
}

OpCase layer_norm_forward(std::uint32_t seed) {
  Draft c("layer_norm_forward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  c.out("out", {T, d});
  c.out("mean", {T});
  c.out("rstd", {T});
  c.in("x", {T, d});
  c.in("weight", {d});
  if (c.flag("bias")) c.in("bias", {d});
  c->scale_floor = 1;
  c->run = [](Backend& backend, const Views& v) {
    ops::layer_norm_forward(backend, {.out = v["out"],
                                      .mean = v["mean"],
                                      .rstd = v["rstd"],
                                      .x = v["x"],
                                      .weight = v["weight"],
                                      .bias = v["bias"],
                                      .eps = 1e-5F});
  };
  c->expect([](auto& t) { reference::layer_norm_forward(t, 1e-5F); });
  return c.finish();
}

OpCase layer_norm_backward(std::uint32_t seed) {
  Draft c("layer_norm_backward", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t d = c.width();
  const bool accumulate = c.flag("accumulate");
  c.add("dx", accumulate ? Role::kInputOutput : Role::kOutput, {T, d});
  c.in_out("dweight", {d});
  if (c.flag("bias")) c.in_out("dbias", {d});
  c.in("dout", {T, d});
  c.in("x", {T, d});
  c.in("weight", {d});
  const auto forward = [](auto& t) { reference::layer_norm_forward(t, 1e-5F); };
  c.saved("mean", {T}, forward);
  c.saved("rstd", {T}, forward);
  c->scale_floor = d == 1 ? 300 : 1;  // rstd is that large where the variance is 0
  c->run = [accumulate](Backend& backend, const Views& v) {
    ops::layer_norm_backward(backend, {.dx = v["dx"],
                                       .dweight = v["dweight"],
                                       .dbias = v["dbias"],
                                       .dout = v["dout"],
                                       .x = v["x"],
                                       .mean = v["mean"],
                                       .rstd = v["rstd"],
                                       .weight = v["weight"],
                                       .accumulate = accumulate});
  };
  c->expect([accumulate](auto& t) { reference::layer_norm_backward(t, accumulate); });
  return c.finish();
}

}  // namespace

std::vector<OpCase> model_op_cases();   // op_cases_model.cpp
std::vector<OpCase> decode_op_cases();  // op_cases_decode.cpp
std::vector<OpCase> expert_op_cases();  // op_cases_experts.cpp

std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> cases;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) cases.push_back(matmul(seed));
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    for (const auto make :
         {bias_backward, embedding_forward, embedding_backward, rms_norm_forward,
          add_rms_norm_forward, rms_norm_backward, layer_norm_forward, layer_norm_backward}) {
      cases.push_back(make(seed));
    }
  }
  for (OpCase& op_case : model_op_cases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : decode_op_cases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : expert_op_cases()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace flywheel::test

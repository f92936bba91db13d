#include <algorithm>
#include <numeric>

#include "backend/ops.h"
#include "parity/draft.h"
#include "support/reference_ops.h"

namespace flywheel::test {
namespace {

OpCase route_experts(std::uint32_t seed) {
  Draft c("route_experts", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t E = c.size("E", {1, 2, 5, 8, 128});
  const std::int64_t K = std::min(E, c.size("K", {1, 2, 3, 8}));
  const bool normalize = c.flag("normalize");
  c.out("weights", {T, K});
  for (const auto& [name, size] :
       {std::pair{"slots", T * K}, std::pair{"rows", T * K}, std::pair{"offsets", E + 1}}) {
    const bool is_slots = std::string(name) == "slots";
    c.add(name, Role::kOutput, is_slots ? Shape{T, K} : Shape{size}).dtype = DType::I32;
  }
  // Few values, so that there are ties.
  c.in("logits", {T, E});
  if (c.flag("ties")) {
    for (double& x : c.find("logits").initial.values) x = static_cast<double>(c.below(4));
  }
  c->run = [normalize](Backend& backend, const Views& v) {
    ops::route_experts(backend, {.weights = v["weights"],
                                 .slots = v["slots"],
                                 .rows = v["rows"],
                                 .offsets = v["offsets"],
                                 .logits = v["logits"],
                                 .normalize = normalize});
  };
  c->expect([normalize](auto& t) { reference::route_experts(t, normalize); });
  return c.finish();
}

OpCase grouped_matmul(std::uint32_t seed) {
  Draft c("grouped_matmul", seed);
  const std::int64_t R = c.tokens();
  const std::int64_t E = c.size("E", {1, 3, 8});
  const std::int64_t N = c.width();
  const std::int64_t K = c.width();
  c.out("out", {R, N});
  c.in("a", {R, K});
  c.in("b", {E * N, K});
  c.indices("offsets", E + 1, R + 1);
  auto& offsets = c.find("offsets").initial.values;
  std::sort(offsets.begin(), offsets.end());
  offsets.front() = 0;
  offsets.back() = static_cast<double>(R);
  const bool few_rows = c.flag("few_rows");
  c->run = [few_rows](Backend& backend, const Views& v) {
    ops::grouped_matmul(
        backend,
        {.out = v["out"], .a = v["a"], .b = v["b"], .offsets = v["offsets"], .few_rows = few_rows});
  };
  c->expect([](auto& t) { reference::grouped_matmul(t); });
  return c.finish();
}

OpCase combine_experts(std::uint32_t seed) {
  Draft c("combine_experts", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t K = c.size("K", {1, 2, 8});
  const std::int64_t d = c.width();
  c.out("out", {T, d});
  c.in("x", {T * K, d});
  c.indices("slots", T * K, T * K);
  c.find("slots").initial.shape = {T, K};
  c.in("weights", {T, K});
  c->run = [](Backend& backend, const Views& v) {
    ops::combine_experts(
        backend, {.out = v["out"], .x = v["x"], .slots = v["slots"], .weights = v["weights"]});
  };
  c->expect([](auto& t) { reference::combine_experts(t); });
  return c.finish();
}

}  // namespace

std::vector<OpCase> expert_op_cases() {
  std::vector<OpCase> cases;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    for (const auto make : {route_experts, grouped_matmul, combine_experts}) {
      cases.push_back(make(seed));
    }
  }
  return cases;
}

}  // namespace flywheel::test

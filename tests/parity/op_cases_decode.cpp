#include <cmath>

#include "backend/ops.h"
#include "parity/draft.h"
#include "support/reference_ops.h"

namespace flywheel::test {
namespace {

OpCase kv_cache_write(std::uint32_t seed) {
  Draft c("kv_cache_write", seed);
  const std::int64_t T = c.tokens();
  const std::int64_t C = c.size("C", {1, 2, 5});
  const std::int64_t Hkv = c.size("Hkv", {1, 2, 3});
  const std::int64_t D = c.size("D", {2, 8, 34, 64});
  const std::int64_t first = c.size("first", {0, 3});
  const std::int64_t L = first + (T + C - 1) / C + c.size("room", {0, 4});
  const Layout layout = c.layout("heads_first", Layout::kHeadsFirst);
  c.in_out("k_cache", {C, Hkv, L, D});
  c.in_out("v_cache", {C, Hkv, L, D});
  c.in("k", {T, Hkv, D}, layout);
  c.in("v", {T, Hkv, D}, layout);
  c.indices("slots", T, C);
  c.indices("positions", T, L);
  for (std::int64_t t = 0; t < T; ++t) {  // every place once
    c.find("slots").initial(t) = static_cast<double>(t % C);
    c.find("positions").initial(t) = static_cast<double>(first + t / C);
  }
  c->run = [](Backend& backend, const Views& v) {
    ops::kv_cache_write(backend, {.k_cache = v["k_cache"],
                                  .v_cache = v["v_cache"],
                                  .k = v["k"],
                                  .v = v["v"],
                                  .slots = v["slots"],
                                  .positions = v["positions"]});
  };
  c->expect([](auto& t) { reference::kv_cache_write(t); });
  return c.finish();
}

OpCase attention_decode(std::uint32_t seed) {
  Draft c("attention_decode", seed);
  const std::int64_t T = c.size("T", {1, 2, 3, 9});
  const std::int64_t C = c.size("C", {1, 2, 5});
  const std::int64_t Hkv = c.size("Hkv", {1, 2, 3});
  const std::int64_t H = Hkv * c.size("group", {1, 2, 4});
  const std::int64_t D = c.size("D", {2, 8, 34, 64, 128});
  const std::int64_t L = c.size("L", {1, 5, 130, 256, 600, 1025});
  const std::int64_t window = c.flag("window") ? c.size("w", {1, 7, 300}) : 0;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(D)));
  c.out("out", {T, H, D}, c.layout("padded", Layout::kPaddedRows));
  c.in("q", {T, H, D}, c.layout("heads_first", Layout::kHeadsFirst));
  c.in("k_cache", {C, Hkv, L, D});
  c.in("v_cache", {C, Hkv, L, D});
  c.indices("slots", T, C);
  c.indices("positions", T, L);
  if (c.flag("last")) c.find("positions").initial(0) = static_cast<double>(L - 1);
  c->run = [window, scale](Backend& backend, const Views& v) {
    ops::attention_decode(backend, {.out = v["out"],
                                    .q = v["q"],
                                    .k_cache = v["k_cache"],
                                    .v_cache = v["v_cache"],
                                    .slots = v["slots"],
                                    .positions = v["positions"],
                                    .window = window,
                                    .scale = scale});
  };
  c->expect([window, scale](auto& t) { reference::attention_decode(t, window, scale); });
  return c.finish();
}

}  // namespace

std::vector<OpCase> decode_op_cases() {
  std::vector<OpCase> cases;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) cases.push_back(kv_cache_write(seed));
  for (std::uint32_t seed = 1; seed <= 30; ++seed) cases.push_back(attention_decode(seed));
  return cases;
}

}  // namespace flywheel::test

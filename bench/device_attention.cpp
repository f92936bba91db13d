#include "bench/device_attention.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "attention/counts.h"
#include "attention/plan.h"
#include "backend/ops.h"
#include "core/fields.h"
#include "core/float16.h"
#include "core/philox.h"

namespace flywheel::bench {
namespace {

// [T, H, D] in bf16, head-major, of random numbers.
struct Heads {
  std::unique_ptr<DeviceMemory> memory;
  TensorView view;

  Heads(Backend& backend, std::int64_t tokens, const AttentionSetting& setting,
        std::uint32_t which) {
    const std::int64_t elements = tokens * setting.heads * setting.head_size;
    memory = backend.allocate(elements * size_of(DType::BF16), "benchmark");
    view = TensorView::heads_first(memory->data(), DType::BF16, tokens, setting.heads,
                                   setting.head_size, backend.device());
    const RandomSequence random(1, RandomStream::kInitialization, which);
    std::vector<std::uint16_t> host(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < host.size(); ++i) {
      host[i] = float_to_bf16(static_cast<float>(random.uniform(i) * 2 - 1));
    }
    backend.upload({memory->data(), DType::BF16, Shape{elements}, backend.device()}, host.data());
  }
};

// Seconds of a call: the mean over as many as the budget allows, after one that warms up.
template <class Call>
double seconds_of(Backend& backend, double budget, const Call& call) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](int repeats) {
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) call();
    backend.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
  };
  timed(1);
  const double once = timed(1);
  if (once >= budget) return once;
  return timed(static_cast<int>(std::min(budget / once, 1000.0)) + 1);
}

AttentionFigures time_pattern(Backend& backend, const AttentionPattern& pattern,
                              std::int64_t length, const AttentionSetting& setting) {
  const std::int64_t sequences = std::max<std::int64_t>(1, setting.tokens / length);
  const std::int64_t tokens = sequences * length;
  std::vector<std::int32_t> cu_seqlens;
  for (std::int64_t s = 0; s <= sequences; ++s) {
    cu_seqlens.push_back(static_cast<std::int32_t>(s * length));
  }
  AttentionPlan plan(pattern, backend.attention_tile(), tokens, sequences);
  plan.prepare(cu_seqlens, PermutationKey{1}, 0);
  backend.upload_plan(plan);
  const Heads q(backend, tokens, setting, 0), k(backend, tokens, setting, 1),
      v(backend, tokens, setting, 2), dout(backend, tokens, setting, 3);
  const Heads out(backend, tokens, setting, 4), dq(backend, tokens, setting, 5),
      dk(backend, tokens, setting, 6), dv(backend, tokens, setting, 7);
  const auto lse_memory =
      backend.allocate(tokens * setting.heads * size_of(DType::F32), "benchmark");
  const TensorView lse(lse_memory->data(), DType::F32, Shape{setting.heads, tokens},
                       backend.device());
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(setting.head_size)));
  AttentionFigures figures{.pattern = std::string(name_of_enum(pattern.kind)),
                           .length = length,
                           .tokens = tokens,
                           .visible_keys = mean_visible_keys(plan)};
  figures.forward_seconds = seconds_of(backend, setting.budget_seconds, [&] {
    ops::attention_forward(backend, {out.view, lse, q.view, k.view, v.view, &plan, scale});
  });
  figures.backward_seconds = seconds_of(backend, setting.budget_seconds, [&] {
    ops::attention_backward(backend, {.dq = dq.view,
                                      .dk = dk.view,
                                      .dv = dv.view,
                                      .dout = dout.view,
                                      .out = out.view,
                                      .lse = lse,
                                      .q = q.view,
                                      .k = k.view,
                                      .v = v.view,
                                      .plan = &plan,
                                      .scale = scale});
  });
  const double pairs = figures.visible_keys * static_cast<double>(tokens * setting.heads);
  const auto size = static_cast<double>(setting.head_size);
  figures.forward_tflops = 4e-12 * size * pairs / figures.forward_seconds;
  figures.backward_tflops = 10e-12 * size * pairs / figures.backward_seconds;
  return figures;
}

}  // namespace

std::vector<AttentionFigures> time_attention(Backend& backend, const AttentionSetting& setting) {
  std::vector<AttentionFigures> all;
  fmt::print(
      "\nattention   length   keys   forward ms  TFLOP/s   backward ms  TFLOP/s   over full\n");
  for (const std::int64_t length : setting.lengths) {
    double full = 0;
    for (const AttentionKind kind : {AttentionKind::Full, AttentionKind::Swa, AttentionKind::Sa}) {
      AttentionPattern pattern{kind};
      if (kind != AttentionKind::Full) pattern.window = setting.window;
      AttentionFigures f = time_pattern(backend, pattern, length, setting);
      const double seconds = f.forward_seconds + f.backward_seconds;
      if (kind == AttentionKind::Full) full = seconds;
      f.speed_up = full / seconds;
      fmt::print("{:10} {:7} {:6.0f} {:12.3f} {:8.2f} {:13.3f} {:8.2f} {:11.2f}\n", f.pattern,
                 length, f.visible_keys, f.forward_seconds * 1e3, f.forward_tflops,
                 f.backward_seconds * 1e3, f.backward_tflops, f.speed_up);
      std::fflush(stdout);
      all.push_back(std::move(f));
    }
  }
  return all;
}

}  // namespace flywheel::bench

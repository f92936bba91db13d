#include <cstring>

#include "cpu/kernels.h"
#include "cpu/matrix_units.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

void add_elements(float* out, const float* a, const float* b, std::int64_t count) {
  for_vectors(count, [&](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Add(lanes.load(a + i), lanes.load(b + i)), out + i);
  });
}

void scale_elements(float* x, float factor, std::int64_t count) {
  const auto by = hn::Set(F32(), factor);
  for_vectors(count, [&](std::int64_t i, auto lanes)
                         HWY_ATTR { lanes.store(hn::Mul(lanes.load(x + i), by), x + i); });
}

// Past the caches if x would not fit there anyway: that saves reading what is overwritten.
void fill_elements(float* x, float value, std::int64_t count) {
  constexpr std::int64_t kLargerThanCaches = std::int64_t{1} << 18;
  const auto v = hn::Set(F32(), value);
  const auto width = static_cast<std::int64_t>(hn::Lanes(F32()));
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % (width * sizeof(float)) == 0;
  if (count >= kLargerThanCaches && aligned) {
    for (; count >= width; count -= width, x += width) hn::Stream(v, F32(), x);
    hwy::FlushStream();
  }
  for_vectors(count, [&](std::int64_t i, auto lanes) HWY_ATTR { lanes.store(v, x + i); });
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(add_elements);
HWY_EXPORT(scale_elements);
HWY_EXPORT(fill_elements);

void add(const Add& args, ThreadPool& pool) {
  pool.for_range(
      args.out.elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(add_elements)
        (args.out.f32() + begin, args.a.f32() + begin, args.b.f32() + begin, end - begin);
      });
}

void scale(const Scale& args, ThreadPool& pool) {
  pool.for_range(args.x.elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(scale_elements)(args.x.f32() + begin, args.factor, end - begin);
  });
}

void fill(const Fill& args, ThreadPool& pool) {
  pool.for_range(args.x.elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(fill_elements)(args.x.f32() + begin, args.value, end - begin);
  });
}

void copy(const Copy& args, ThreadPool& pool) {
  pool.for_range(args.x.bytes(), 4 * kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
    std::memcpy(args.out.data + begin, args.x.data + begin, static_cast<std::size_t>(end - begin));
  });
}

namespace {

std::int64_t best_target() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets & -targets;
}

}  // namespace

bool multiplies_int8() {
  return best_target() == HWY_AVX3 && use_vnni();
}

std::string simd_target() {
  const std::int64_t best = best_target();
  return std::string(hwy::TargetName(best)) + (best == HWY_AVX3 && use_amx() ? " + AMX" : "");
}

}  // namespace flywheel::cpu
#endif

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/ops.h"
#include "cpu/cpu_backend.h"
#include "parity/op_case.h"
#include "support/catch.h"
#include "support/vector_targets.h"

using namespace flywheel;
using namespace flywheel::test;

TEST_CASE("every op is as exact as a naive float loop", "[parity]") {
  const std::vector<OpCase> cases = all_op_cases();
  for_each_unit([&] {
    const auto backend = make_cpu_backend(1);
    for (const OpCase& op_case : cases) {
      const Comparison worst = compare(op_case, run_on(*backend, op_case));
      CAPTURE(op_case.name, worst.output, worst.error, worst.tolerance);
      CHECK(worst.passed());
    }
  });
}

TEST_CASE("every op gives the same bits at any number of threads", "[parity]") {
  const std::vector<OpCase> cases = all_op_cases();
  for_each_unit([&] {
    const auto one = make_cpu_backend(1);
    const auto two = make_cpu_backend(2);
    const auto three = make_cpu_backend(3);
    for (const OpCase& op_case : cases) {
      CAPTURE(op_case.name);
      const Outputs expected = run_on(*one, op_case);
      REQUIRE(same_bits(expected, run_on(*two, op_case)));
      REQUIRE(same_bits(expected, run_on(*three, op_case)));
    }
  });
}

TEST_CASE("products larger than every block of the kernels are exact", "[parity]") {
  constexpr std::int64_t M = 197, N = 2331, K = 2077;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  };
  std::vector<float> a = draw(M * K);
  std::vector<float> b = draw(K * N);
  const std::vector<float> start = draw(M * N);
  for_each_unit([&] {
    const auto backend = make_cpu_backend(2);
    for (const bool transposed : {false, true}) {
      std::vector<float> out = start;
      ops::matmul(*backend, {.out = {out.data(), DType::F32, Shape{M, N}},
                             .a = {a.data(), DType::F32, transposed ? Shape{K, M} : Shape{M, K}},
                             .b = {b.data(), DType::F32, transposed ? Shape{N, K} : Shape{K, N}},
                             .transpose_a = transposed,
                             .transpose_b = transposed,
                             .accumulate = true});
      for (std::int64_t element = 0; element < M * N; element += 331) {
        const std::int64_t i = element / N;
        const std::int64_t j = element % N;
        double sum = start[static_cast<std::size_t>(element)];
        double squares = 1;
        for (std::int64_t k = 0; k < K; ++k) {
          const double product =
              double{a[static_cast<std::size_t>(transposed ? k * M + i : i * K + k)]} *
              b[static_cast<std::size_t>(transposed ? j * K + k : k * N + j)];
          sum += product;
          squares += product * product;
        }
        CAPTURE(transposed, i, j);
        const double error = std::abs(out[static_cast<std::size_t>(element)] - sum);
        REQUIRE(error < 4e-6 * std::sqrt(squares));
      }
    }
  });
}

TEST_CASE("a factor that is not finite makes its sums so, and no others", "[parity]") {
  constexpr std::int64_t kSize = 40;
  for_each_unit([&] {
    const auto backend = make_cpu_backend(1);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> a(kSize * kSize, 0.5F);
      std::vector<float> b(kSize * kSize, 2.0F);
      std::vector<float> out(kSize * kSize);
      a[3 * kSize + 35] = bad;
      ops::matmul(*backend, {.out = {out.data(), DType::F32, Shape{kSize, kSize}},
                             .a = {a.data(), DType::F32, Shape{kSize, kSize}},
                             .b = {b.data(), DType::F32, Shape{kSize, kSize}}});
      for (std::int64_t i = 0; i < kSize; ++i) {
        CAPTURE(bad, i);
        const float found = out[static_cast<std::size_t>(i * kSize + 7)];
        if (i == 3) {
          CHECK_FALSE(std::isfinite(found));
        } else {
          CHECK(found == kSize);
        }
      }
    }
  });
}

TEST_CASE("a loss keeps the many small terms of a large vocabulary", "[parity]") {
  constexpr std::int64_t kVocabulary = 50'000;
  constexpr float kSmall = -17;  // e^-17 is below half a unit in the last place of 1
  for_each_unit([&] {
    const auto backend = make_cpu_backend(1);
    std::vector<float> logits(kVocabulary, kSmall);
    logits[0] = 0;
    float loss = 0;
    std::int32_t token = 0;
    ops::cross_entropy(*backend, {.losses = {&loss, DType::F32, Shape{1}},
                                  .most_likely = {},
                                  .logits = {logits.data(), DType::F32, Shape{1, kVocabulary}},
                                  .targets = {&token, DType::I32, Shape{1}},
                                  .vocab_size = kVocabulary});
    const double exact = std::log1p((kVocabulary - 1) * std::exp(double{kSmall}));
    CHECK(std::abs(loss - exact) < 2e-6);
  });
}

TEST_CASE("fill past the caches fills all and nothing more", "[parity]") {
  for_each_unit([&] {
    const auto backend = make_cpu_backend(1);
    constexpr std::int64_t kFloats = (std::int64_t{1} << 18) + 64;
    const auto memory = backend->allocate(kFloats * size_of(DType::F32), "test");
    const TensorView all(memory->data(), DType::F32, Shape{kFloats});
    for (const std::int64_t begin : {0, 1, 16}) {
      const std::int64_t count = kFloats - begin - 13;
      ops::fill(*backend, {.x = all, .value = 1});
      const TensorView part(memory->data() + begin * size_of(DType::F32), DType::F32, Shape{count});
      ops::fill(*backend, {.x = part, .value = 2});
      for (std::int64_t i = 0; i < kFloats; ++i) {
        const bool inside = i >= begin && i < begin + count;
        CAPTURE(begin, i);
        if (all.f32()[i] != (inside ? 2 : 1)) FAIL("a wrong element");
      }
    }
  });
}

TEST_CASE("a result that is off by more than rounding is noticed", "[parity]") {
  const auto backend = make_cpu_backend(1);
  for (const OpCase& op_case : all_op_cases()) {
    Outputs outputs = run_on(*backend, op_case);
    for (auto& [name, array] : outputs) array(0) += 1e-4 * (1 + std::abs(array(0)));
    CAPTURE(op_case.name);
    REQUIRE_FALSE(compare(op_case, outputs).passed());
  }
}

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>

#include "backend/ops.h"
#include "core/error.h"
#include "core/interleaved_rows.h"
#include "core/stored_type.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernels.h"
#include "infer/load_model.h"
#include "model/sequence_packer.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/model_cases.h"
#include "support/vector_targets.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr std::int64_t kRows = kInterleavedRows;

constexpr std::pair<DType, StoredType> kTypes[] = {{DType::BF16, StoredType::BF16},
                                                   {DType::F16, StoredType::F16},
                                                   {DType::Q8_0, StoredType::Q8_0}};

std::vector<float> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A matrix in a type of weights, and the same values in float32.
struct KeptMatrix {
  KeptMatrix(std::int64_t rows, std::int64_t columns, DType dtype, StoredType type,
             std::uint32_t seed)
      : bytes(static_cast<std::size_t>(bytes_of(dtype, rows * columns))),
        floats(random_values(rows * columns, seed)) {
    from_floats(type, floats, bytes.data());
    to_floats(type, bytes.data(), floats);
    kept = TensorView::of_weights(bytes.data(), dtype, {rows, columns});
    plain = TensorView(floats.data(), DType::F32, {rows, columns});
  }
  std::vector<std::byte> bytes;
  std::vector<float> floats;
  TensorView kept, plain;
};

// Q8_0 with its rows interleaved; zeros fill up the last group.
struct InterleavedMatrix : KeptMatrix {
  InterleavedMatrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed)
      : KeptMatrix(rows, columns, DType::Q8_0, StoredType::Q8_0, seed) {
    const std::int64_t groups = (rows + kRows - 1) / kRows;
    const std::int64_t group_bytes = bytes_of(DType::Q8_0, kRows * columns);
    bytes.resize(static_cast<std::size_t>(groups * group_bytes));
    std::vector<std::byte> interleaved(bytes.size());
    for (std::int64_t at = 0; at < groups * group_bytes; at += group_bytes) {
      interleave_rows(bytes.data() + at, columns, interleaved.data() + at);
    }
    bytes = std::move(interleaved);
    kept = TensorView::of_weights(bytes.data(), DType::Q8_0x16, {rows, columns});
  }
};

// a b^T + bias, a [m, k].
std::vector<float> few_rows_product(Backend& backend, std::vector<float>& a,
                                    const TensorView& weights, std::vector<float>& bias) {
  const std::int64_t n = weights.shape[0];
  const std::int64_t k = weights.shape[1];
  const std::int64_t m = static_cast<std::int64_t>(a.size()) / k;
  std::vector<float> out(static_cast<std::size_t>(m * n));
  ops::matmul(backend, {.out = TensorView(out.data(), DType::F32, {m, n}),
                        .a = TensorView(a.data(), DType::F32, {m, k}),
                        .b = weights,
                        .bias = TensorView(bias.data(), DType::F32, {n}),
                        .transpose_b = true,
                        .few_rows = true});
  return out;
}

// The root mean square of out - (a b^T + bias).
double error_of(const std::vector<float>& out, const std::vector<float>& a,
                const std::vector<float>& b, const std::vector<float>& bias) {
  const std::size_t n = bias.size();
  const std::size_t k = b.size() / n;
  double squares = 0;
  for (std::size_t element = 0; element < out.size(); ++element) {
    const std::size_t i = element / n;
    const std::size_t j = element % n;
    double sum = bias[j];
    for (std::size_t at = 0; at < k; ++at) sum += double{a[i * k + at]} * b[j * k + at];
    squares += std::pow(out[element] - sum, 2);
  }
  return std::sqrt(squares / static_cast<double>(out.size()));
}

// Whether products of more than a few rows with rows of Q8_0 add up blocks instead of elements.
bool adds_up_blocks() {
  return cpu::simd_target().ends_with("AMX");
}

// The bits of the same values in float32, or errors as small, as far as a few of them show.
void check_product(const std::vector<float>& found, const std::vector<float>& expected,
                   bool same_bits, const std::vector<float>& a, const KeptMatrix& b,
                   const std::vector<float>& bias) {
  if (same_bits) {
    REQUIRE(found == expected);
  } else {
    REQUIRE(error_of(found, a, b.floats, bias) <= 1.3 * error_of(expected, a, b.floats, bias));
  }
}

}  // namespace

TEST_CASE("products with kept weights have the bits of float32's", "[kept_weights]") {
  struct Shape3 {
    std::int64_t m, n, k;
  };
  for (const auto& [dtype, type] : kTypes) {
    for (const Shape3 s : {Shape3{1, 32, 32}, {3, 96, 64}, {9, 416, 1056}, {70, 1600, 96}}) {
      for (const bool transposed : {true, false}) {
        for (const bool few_rows : {true, false}) {
          for (const int threads : {1, 2}) {
            INFO(name_of(dtype) << " " << s.m << "x" << s.n << "x" << s.k << " transposed "
                                << transposed << " few_rows " << few_rows);
            const auto backend = make_cpu_backend(threads);
            const KeptMatrix b(transposed ? s.n : s.k, transposed ? s.k : s.n, dtype, type, 1);
            std::vector<float> a = random_values(s.m * s.k, 2);
            std::vector<float> bias = random_values(s.n, 3);
            const auto product = [&](const TensorView& weights) {
              std::vector<float> out(static_cast<std::size_t>(s.m * s.n));
              ops::matmul(*backend, {.out = TensorView(out.data(), DType::F32, {s.m, s.n}),
                                     .a = TensorView(a.data(), DType::F32, {s.m, s.k}),
                                     .b = weights,
                                     .bias = TensorView(bias.data(), DType::F32, {s.n}),
                                     .transpose_b = transposed,
                                     .few_rows = few_rows});
              return out;
            };
            const bool blocks = dtype == DType::Q8_0 && transposed && !few_rows;
            check_product(product(b.kept), product(b.plain), !(blocks && adds_up_blocks()), a, b,
                          bias);
          }
        }
      }
    }
  }
}

TEST_CASE("interleaved rows lie in groups of 16 as documented", "[kept_weights]") {
  constexpr std::int64_t kColumns = 64;
  const KeptMatrix rows(kRows, kColumns, DType::Q8_0, StoredType::Q8_0, 1);
  std::vector<std::byte> out(rows.bytes.size());
  interleave_rows(rows.bytes.data(), kColumns, out.data());
  for (std::int64_t block = 0; block < 2; ++block) {
    const std::byte* group = out.data() + block * 544;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::byte* from = rows.bytes.data() + (row * 2 + block) * 34;
      REQUIRE(std::equal(from, from + 2, group + 2 * row));
      for (std::int64_t column = 0; column < 32; ++column) {
        const std::byte kept = group[32 + 64 * (column / 4) + 4 * row + column % 4];
        const auto integer = static_cast<std::int8_t>(from[2 + column]);
        REQUIRE(std::to_integer<int>(kept) == integer + 128);
      }
    }
  }
}

TEST_CASE("products with interleaved rows have the bits of plain ones", "[kept_weights]") {
  for_each_unit([] {
    const auto backend = make_cpu_backend(2);
    for (const auto& [m, n, k] : {std::tuple{1, 16, 32}, {9, 411, 1056}, {70, 1600, 96}}) {
      const InterleavedMatrix b(n, k, 1);
      const KeptMatrix rows(n, k, DType::Q8_0, StoredType::Q8_0, 1);
      std::vector<float> a = random_values(m * k, 2);
      const auto product = [&](const TensorView& weights) {
        std::vector<float> out(static_cast<std::size_t>(m * n));
        ops::matmul(*backend, {.out = TensorView(out.data(), DType::F32, {m, n}),
                               .a = TensorView(a.data(), DType::F32, {m, k}),
                               .b = weights,
                               .transpose_b = true});
        return out;
      };
      CAPTURE(m, n, k);
      REQUIRE(product(b.kept) == product(rows.kept));
      check_product(product(b.kept), product(b.plain), !adds_up_blocks(), a, b,
                    std::vector<float>(static_cast<std::size_t>(n)));
    }
  });
}

TEST_CASE("products of few rows with interleaved ones are as exact as float32's",
          "[kept_weights]") {
  for_each_unit([] {
    const auto backend = make_cpu_backend(1);
    const bool integers = backend->interleaves_weights();
    for (const float outliers : {1.0F, 100.0F}) {
      for (const auto& [m, n, k] :
           {std::tuple{1, 16, 32}, {3, 50, 576}, {9, 411, 1056}, {70, 96, 4096}}) {
        InterleavedMatrix b(n, k, 1);
        std::vector<float> a = random_values(m * k, 2);
        for (std::size_t i = 0; i < a.size(); i += 7) a[i] *= outliers;
        std::vector<float> bias = random_values(n, 3);
        const auto error = [&](const TensorView& weights) {
          return error_of(few_rows_product(*backend, a, weights, bias), a, b.floats, bias);
        };
        CAPTURE(outliers, m, n, k, integers, error(b.kept), error(b.plain));
        CHECK(error(b.kept) <= (integers ? 0.9 : 2.0) * error(b.plain));
      }
    }
  });
}

TEST_CASE("a row's product with interleaved ones has the same bits in any company",
          "[kept_weights]") {
  for_each_unit([] {
    constexpr std::int64_t m = 21, n = 8000, k = 96;
    const auto one = make_cpu_backend(1);
    InterleavedMatrix b(n, k, 1);
    std::vector<float> bias = random_values(n, 3);
    std::vector<float> a = random_values(m * k, 2);
    const std::vector<float> all = few_rows_product(*one, a, b.kept, bias);
    for (const int threads : {2, 3}) {
      REQUIRE(few_rows_product(*make_cpu_backend(threads), a, b.kept, bias) == all);
    }
    for (std::int64_t row = 0; row < m; ++row) {
      std::vector<float> alone(a.begin() + row * k, a.begin() + (row + 1) * k);
      const std::vector<float> out = few_rows_product(*one, alone, b.kept, bias);
      REQUIRE(std::equal(out.begin(), out.end(), all.begin() + row * n));
    }
  });
}

TEST_CASE("integer products keep zeros, extreme sizes and non-finite elements", "[kept_weights]") {
  for_each_unit([] {
    constexpr std::int64_t n = 32, k = 64;
    const auto backend = make_cpu_backend(1);
    InterleavedMatrix b(n, k, 1);
    std::vector<float> bias(n, 0.0F);
    const auto expect = [&](std::vector<float> a, double tolerance) {
      const std::vector<float> out = few_rows_product(*backend, a, b.kept, bias);
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < k; ++i) sum += double{a[i]} * b.floats[j * k + i];
        CAPTURE(j, out[j], sum);
        if (std::isfinite(sum)) {
          REQUIRE(std::abs(out[j] - sum) <= tolerance);
        } else {
          REQUIRE_FALSE(std::isfinite(out[j]));
        }
      }
    };
    const auto scaled = [&](float factor) {
      std::vector<float> a = random_values(k, 5);
      for (float& x : a) x *= factor;
      return a;
    };
    expect(std::vector<float>(k, 0.0F), 0);
    expect(scaled(1e30F), 1e25);
    expect(scaled(1e-30F), 1e-35);
    // Elements are multiples of 2^-126 here, scales have 17 bits or fewer.
    expect(scaled(1e-33F), k * 4 * 0x1p-127 + k * 4e-33 * 0x1p-16);
    expect(scaled(1e-43F), k * 4 * 0x1p-126);
    // The largest that goes with a first digit of 127, and one that needs the next power of two.
    for (const float largest : {127.0F / 64, std::nextafter(127.0F / 64, 2.0F)}) {
      std::vector<float> a(k, -1.0F);
      a[3] = largest;
      a[9] = -largest;
      expect(a, 0x1p-18);
    }
    std::vector<float> a(k, -1.0F);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      a[40] = bad;
      expect(a, 0);
    }
  });
}

TEST_CASE("more rows than the workspace has room for are multiplied in turns", "[kept_weights]") {
  constexpr std::int64_t m = 900, n = 16, k = 4096;
  const auto backend = make_cpu_backend(2);
  InterleavedMatrix b(n, k, 1);
  std::vector<float> a = random_values(m * k, 2);
  std::vector<float> bias = random_values(n, 3);
  const std::vector<float> all = few_rows_product(*backend, a, b.kept, bias);
  for (const std::int64_t row : {0, 890, 899}) {
    std::vector<float> alone(a.begin() + row * k, a.begin() + (row + 1) * k);
    const std::vector<float> out = few_rows_product(*backend, alone, b.kept, bias);
    REQUIRE(std::equal(out.begin(), out.end(), all.begin() + row * n));
  }
}

TEST_CASE("experts of interleaved rows are found by their groups", "[kept_weights]") {
  for_each_unit([] {
    constexpr std::int64_t kExperts = 3, n = 32, k = 64, m = 7;
    const auto backend = make_cpu_backend(2);
    InterleavedMatrix b(kExperts * n, k, 1);
    std::vector<float> a = random_values(m * k, 2);
    std::vector<std::int32_t> offsets{0, 2, 2, 7};
    const auto product = [&](const TensorView& weights, bool few_rows) {
      std::vector<float> out(m * n);
      ops::grouped_matmul(*backend, {.out = TensorView(out.data(), DType::F32, {m, n}),
                                     .a = TensorView(a.data(), DType::F32, {m, k}),
                                     .b = weights,
                                     .offsets = TensorView(offsets.data(), DType::I32, {4}),
                                     .few_rows = few_rows});
      return out;
    };
    const std::vector<float> expected = product(b.plain, false);
    for (const bool few_rows : {false, true}) {
      const std::vector<float> found = product(b.kept, few_rows);
      const bool same_bits = !few_rows && !adds_up_blocks();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float rounding = same_bits ? 0 : 1e-5F * (1 + std::abs(expected[i]));
        REQUIRE(std::abs(found[i] - expected[i]) <= rounding);
      }
    }
  });
}

TEST_CASE("interleaved rows are refused where they have no place", "[kept_weights]") {
  const auto backend = make_cpu_backend(1);
  InterleavedMatrix b(48, 32, 1);
  std::vector<float> a(48 * 48);
  std::vector<float> out(48 * 48);
  std::vector<std::int32_t> offsets{0, 1, 2};
  REQUIRE(contains(error_of([&] {
                     ops::matmul(*backend, {.out = TensorView(out.data(), DType::F32, {1, 32}),
                                            .a = TensorView(a.data(), DType::F32, {1, 48}),
                                            .b = b.kept});
                   }),
                   "q8_0x16 needs transpose_b"));
  REQUIRE(contains(error_of([&] {
                     ops::grouped_matmul(*backend,
                                         {.out = TensorView(out.data(), DType::F32, {2, 24}),
                                          .a = TensorView(a.data(), DType::F32, {2, 32}),
                                          .b = b.kept,
                                          .offsets = TensorView(offsets.data(), DType::I32, {3})});
                   }),
                   "a multiple of 16"));
  REQUIRE(contains(error_of([&] { static_cast<void>(b.kept.rows(8, 16)); }), "inside a group"));
}

TEST_CASE("embeddings are read from kept tables", "[kept_weights]") {
  const auto backend = make_cpu_backend(1);
  const auto check = [&](const KeptMatrix& table) {
    std::vector<std::int32_t> ids{3, 19, 0, 3};
    std::vector<float> out(4 * 64);
    ops::embedding_forward(*backend, {.out = TensorView(out.data(), DType::F32, {4, 64}),
                                      .ids = TensorView(ids.data(), DType::I32, {4}),
                                      .table = table.kept});
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t i = 0; i < 64; ++i) {
        REQUIRE(out[row * 64 + i] == table.floats[static_cast<std::size_t>(ids[row]) * 64 + i]);
      }
    }
  };
  for (const auto& [dtype, type] : kTypes) check(KeptMatrix(20, 64, dtype, type, 1));
  check(InterleavedMatrix(20, 64, 1));
}

TEST_CASE("Q8_0 rounds to the nearest of 255 steps", "[kept_weights]") {
  std::vector<float> values = random_values(64, 5);
  for (std::size_t i = 32; i < 64; ++i) values[i] = 0;
  std::vector<std::byte> blocks(68);
  from_floats(StoredType::Q8_0, values, blocks.data());
  std::vector<float> back(64);
  to_floats(StoredType::Q8_0, blocks.data(), back);
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < 64; ++i) {
    // Half a step, and the rounding of the scale to F16.
    REQUIRE(std::abs(back[i] - values[i]) <= largest / 127 * 0.5F + largest * 0x1p-11F);
  }
  REQUIRE(back[40] == 0);
}

// The same weights in `plain`, as float32 that `type` holds exactly, and in `kept`, which loads
// them as from a file that has them as float32 or as `type`.
void load_alike(Transformer& plain, Transformer& kept, Backend& backend, StoredType type,
                bool stored_as_kept) {
  WeightsSource source("memory");
  std::vector<std::vector<float>> tensors;
  std::vector<std::vector<std::byte>> blocks;
  for (const Parameter& parameter : plain.parameters()) {
    std::vector<float>& values = tensors.emplace_back(download(backend, parameter.value));
    const bool is_matrix = parameter.shape.rank() == 2;
    const BlockSize block = block_of(type);
    std::vector<std::byte>& bytes = blocks.emplace_back(values.size() * sizeof(float));
    if (is_matrix) {
      from_floats(type, values, bytes.data());
      to_floats(type, bytes.data(), values);
    }
    backend.upload(parameter.value, values.data());
    StoredTensor tensor{.name = parameter.name,
                        .shape = {parameter.shape[0]},
                        .type = StoredType::F32,
                        .type_name = "F32",
                        .bytes = std::as_bytes(std::span(values))};
    if (is_matrix) tensor.shape.push_back(parameter.shape[1]);
    if (is_matrix && stored_as_kept) {
      const std::size_t size = values.size() * static_cast<std::size_t>(block.bytes) /
                               static_cast<std::size_t>(block.elements);
      tensor.type = type;
      tensor.bytes = std::span(bytes).first(size);
    }
    source.add(std::move(tensor));
  }
  load_weights(kept, backend, source);
}

TEST_CASE("a model keeps its weights in few bytes and gives the same results", "[kept_weights]") {
  ModelConfig config = tiny_model();
  config.intermediate_size = 64;
  config.kv_heads = 2;
  config.attention_bias = true;
  const auto check = [&](DType dtype, StoredType type, bool stored_as_kept) {
    const auto backend = make_cpu_backend(2);
    TransformerLimits limits{.max_tokens = 16,
                             .max_sequences = 2,
                             .training = false,
                             .cache_slots = 1,
                             .cache_length = 16};
    Transformer plain(config, *backend, limits);
    fill_parameters(plain, *backend, 7);
    limits.weights = dtype;
    Transformer kept(config, *backend, limits);
    load_alike(plain, kept, *backend, type, stored_as_kept);

    const TwinInput input = input_of({"kept", config, {9, 5}, 0, 3});
    const auto losses = [&](Transformer& model) {
      std::vector<float> result(14);
      model.forward(input.packed(), input.draw, result);
      return result;
    };
    const auto require_equal = [&](const std::vector<float>& found,
                                   const std::vector<float>& expected, bool same_bits) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float rounding = same_bits ? 0 : 1e-5F * (1 + std::abs(expected[i]));
        REQUIRE(std::abs(found[i] - expected[i]) <= rounding);
      }
    };
    const bool same_products = dtype != DType::Q8_0 || !adds_up_blocks();
    require_equal(losses(kept), losses(plain), same_products);

    SequencePacker prompt;
    prompt.add(std::span(input.inputs).first(9), std::span(input.targets).first(9));
    const std::vector<std::int32_t> slots{0};
    const std::vector<std::int32_t> next{3};
    const auto decoded = [&](Transformer& model) {
      std::vector<float> logits(static_cast<std::size_t>(config.vocab_size));
      model.prefill(prompt.view(), {}, slots, logits);
      model.decode(next, slots, DecodeAttention::Full, logits);
      return logits;
    };
    const bool same_decoding = dtype != DType::Q8_0 || !backend->interleaves_weights();
    require_equal(decoded(kept), decoded(plain), same_products && same_decoding);

    const auto bytes = [&](DType weights) {
      limits.weights = weights;
      return Transformer::memory(config, limits).front().bytes;
    };
    REQUIRE(100 * bytes(dtype) < 56 * bytes(DType::F32));
  };
  for_each_unit([&] {
    for (const bool tied : {true, false}) {
      config.tie_embeddings = tied;
      for (const auto& [dtype, type] : kTypes) {
        CAPTURE(tied, name_of(dtype));
        check(dtype, type, tied);
      }
    }
  });
}

TEST_CASE("Q8_0 matrices are interleaved where their rows go by 16", "[kept_weights]") {
  const auto backend = make_cpu_backend(1);
  if (!backend->interleaves_weights()) {
    std::puts("skipped: no VNNI on this machine");
    return;
  }
  const auto kept_as = [&](const ModelConfig& config) {
    const TransformerLimits limits{
        .max_tokens = 8, .max_sequences = 1, .training = false, .weights = DType::Q8_0};
    return Transformer(config, *backend, limits).parameters().front().value.dtype;
  };
  ModelConfig config = tiny_model();  // of 61 words
  config.intermediate_size = 64;
  REQUIRE(kept_as(config) == DType::Q8_0x16);
  config.kv_heads = 1;  // k and v have 8 rows
  REQUIRE(kept_as(config) == DType::Q8_0);
}

TEST_CASE("weights that cannot be kept are refused", "[kept_weights]") {
  const auto backend = make_cpu_backend(1);
  ModelConfig config = tiny_model();
  TransformerLimits limits{.max_tokens = 8, .max_sequences = 1, .training = true};
  limits.weights = DType::BF16;
  REQUIRE(contains(error_of([&] { Transformer(config, *backend, limits); }), "trained in f32"));
  limits.training = false;
  REQUIRE(contains(error_of([&] { Transformer(config, *backend, limits); }),
                   "down_proj.weight: [32, 40] cannot be kept as bf16"));
  const WeightsSource none("none");
  REQUIRE(contains(error_of([&] { weights_type(none, config, "int4"); }), "--weights int4"));
}

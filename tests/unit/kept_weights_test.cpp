#include <cstring>
#include <random>

#include "backend/ops.h"
#include "core/error.h"
#include "core/stored_type.h"
#include "cpu/cpu_backend.h"
#include "infer/load_model.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

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
      : bytes(static_cast<std::size_t>(rows * row_bytes(dtype, columns))),
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
            REQUIRE(product(b.kept) == product(b.plain));
          }
        }
      }
    }
  }
}

TEST_CASE("embeddings are read from kept tables", "[kept_weights]") {
  const auto backend = make_cpu_backend(1);
  for (const auto& [dtype, type] : kTypes) {
    const KeptMatrix table(10, 64, dtype, type, 1);
    std::vector<std::int32_t> ids{3, 9, 0, 3};
    std::vector<float> out(4 * 64);
    ops::embedding_forward(*backend, {.out = TensorView(out.data(), DType::F32, {4, 64}),
                                      .ids = TensorView(ids.data(), DType::I32, {4}),
                                      .table = table.kept});
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t i = 0; i < 64; ++i) {
        REQUIRE(out[row * 64 + i] == table.floats[static_cast<std::size_t>(ids[row]) * 64 + i]);
      }
    }
  }
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

TEST_CASE("a model keeps its weights in few bytes and gives the same bits", "[kept_weights]") {
  ModelConfig config = tiny_model();
  config.intermediate_size = 64;
  config.kv_heads = 2;
  config.attention_bias = true;
  const auto backend = make_cpu_backend(2);
  for (const bool tied : {true, false}) {
    config.tie_embeddings = tied;
    for (const auto& [dtype, type] : kTypes) {
      INFO(name_of(dtype));
      TransformerLimits limits{.max_tokens = 16, .max_sequences = 2, .training = false};
      Transformer plain(config, *backend, limits);
      fill_parameters(plain, *backend, 7);
      limits.weights = dtype;
      Transformer kept(config, *backend, limits);
      for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
        const TensorView from = plain.parameters()[i].value;
        const TensorView to = kept.parameters()[i].value;
        std::vector<float> values = download(*backend, from);
        if (to.dtype != DType::F32) {
          std::vector<std::byte> bytes(
              static_cast<std::size_t>(to.shape[0] * row_bytes(dtype, to.shape[1])));
          from_floats(type, values, bytes.data());
          to_floats(type, bytes.data(), values);
          std::memcpy(to.data, bytes.data(), bytes.size());
        } else {
          backend->upload(to, values.data());
        }
        backend->upload(from, values.data());
      }
      const ModelCase c{"kept", config, {9, 5}, 0, 3};
      const TwinInput input = input_of(c);
      const auto losses = [&](Transformer& model) {
        std::vector<float> result(14);
        model.forward(input.packed(), input.draw, result);
        return result;
      };
      REQUIRE(losses(kept) == losses(plain));
      const auto bytes = [&](DType weights) {
        limits.weights = weights;
        return Transformer::memory(config, limits).front().bytes;
      };
      REQUIRE(100 * bytes(dtype) < 56 * bytes(DType::F32));
    }
  }
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

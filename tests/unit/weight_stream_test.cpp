#include "infer/weight_stream.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/file_io.h"
#include "cpu/cpu_backend.h"
#include "infer/load_model.h"
#include "model/sequence_packer.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/model_cases.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

namespace {

const TransformerLimits kLimits{
    .max_tokens = 24, .max_sequences = 1, .training = false, .cache_slots = 1, .cache_length = 32};

UnitSizes sizes_of(const ModelConfig& config, DType weights = DType::F32) {
  return unit_sizes(lay_out_parameters(with_defaults(config), weights));
}

TransformerLimits streamed(TransformerLimits limits) {
  limits.streamed = true;
  return limits;
}

// Logits after a prompt and after each of some tokens more.
std::vector<float> logits_of(Transformer& model) {
  const auto vocabulary = static_cast<std::size_t>(model.config().vocab_size);
  std::mt19937 random(5);
  std::vector<std::int32_t> tokens(24);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % vocabulary);
  SequencePacker prompt;
  prompt.add(tokens, std::vector<std::int32_t>(tokens.size(), -1));
  const std::vector<std::int32_t> slots{0};
  std::vector<float> logits(5 * vocabulary);
  const std::span<float> out(logits);
  model.prefill(prompt.view(), {}, slots, out.first(vocabulary));
  for (std::size_t step = 1; step < 5; ++step) {
    model.decode(std::span(tokens).subspan(step, 1), slots, DecodeAttention::Full,
                 out.subspan(step * vocabulary, vocabulary));
  }
  return logits;
}

// Six layers of random weights, in a file.
struct DeepModel {
  explicit DeepModel(Backend& backend, std::int64_t experts = 0)
      : config(six_layers(experts)), weights("six layers") {
    Transformer model(config, backend, kLimits);
    model.initialize(3);
    const std::byte* begin = model.parameters().front().value.data;
    const TensorView& last = model.parameters().back().value;
    const fs::path path = folder.path() / "weights";
    FileWriter writer(path);
    writer.write({begin, last.data + last.bytes()});
    writer.close();
    const auto file = std::make_shared<MappedFile>(path);
    weights.keep(file);
    for (const Parameter& parameter : model.parameters()) {
      StoredTensor tensor{.name = parameter.name, .shape = {}, .type = StoredType::F32};
      for (int axis = 0; axis < parameter.shape.rank(); ++axis) {
        tensor.shape.push_back(parameter.shape[axis]);
      }
      tensor.bytes = file->bytes().subspan(static_cast<std::size_t>(parameter.value.data - begin),
                                           static_cast<std::size_t>(parameter.value.bytes()));
      weights.add(std::move(tensor));
    }
  }

  static ModelConfig six_layers(std::int64_t experts) {
    ModelConfig config = tiny_model();
    config.layers = 6;
    config.hidden_size = 64;
    config.intermediate_size = 96;
    config.experts = {.count = experts, .per_token = 2, .intermediate_size = 96};
    return config;
  }

  TemporaryFolder folder;
  ModelConfig config;
  WeightsSource weights;
};

bool all_zeros(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace

TEST_CASE("a streamed model gives the same bits, whatever its room", "[weight_stream]") {
  for (const char* name :
       {"models/qwen3", "models/qwen3_moe", "models/gpt2", "models/llama.gguf"}) {
    const OpenedModel opened = open_model(golden(name));
    const auto backend = make_cpu_backend(2);
    const auto whole = load_transformer(opened.weights, opened.config, *backend, kLimits);
    const UnitSizes sizes = sizes_of(opened.config);
    for (const std::int64_t room : {sizes.largest, sizes.largest * 3 / 2, sizes.units}) {
      CAPTURE(name, room);
      const auto model = stream_transformer(opened.weights, opened.config, *backend, kLimits, room);
      REQUIRE(logits_of(*model) == logits_of(*whole));
      REQUIRE(logits_of(*model) == logits_of(*whole));
    }
  }
}

TEST_CASE("matrices of few bytes are streamed as they are kept", "[weight_stream]") {
  const auto backend = make_cpu_backend(2);
  const DeepModel deep(*backend);
  for (const DType weights : {DType::BF16, DType::F16, DType::Q8_0}) {
    CAPTURE(name_of(weights));
    TransformerLimits limits = kLimits;
    limits.weights = weights;
    const auto whole = load_transformer(deep.weights, deep.config, *backend, limits);
    const std::int64_t room = 2 * sizes_of(deep.config, weights).largest;
    const auto model = stream_transformer(deep.weights, deep.config, *backend, limits, room);
    REQUIRE(logits_of(*model) == logits_of(*whole));
  }
}

TEST_CASE("layers that have room stay where they are", "[weight_stream]") {
  const auto backend = make_cpu_backend(1);
  const DeepModel deep(*backend);
  const std::int64_t layers = deep.config.layers;
  const UnitSizes sizes = sizes_of(deep.config);
  REQUIRE(sizes.units == layers * sizes.largest);
  Transformer model(deep.config, *backend, streamed(kLimits));
  const auto reads = [&](std::int64_t room, std::int64_t passes) {
    WeightStream stream(deep.weights, model, *backend, room);
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      for (std::int64_t layer = 0; layer < layers; ++layer) stream.need(layer, {});
    }
    return stream.units_read();
  };
  CHECK(reads(sizes.units, 5) == layers);
  CHECK(reads(sizes.largest, 5) == 5 * layers);
  // Half of the layers: of 5 in turn, 2 are found in memory, the best that is possible.
  const std::int64_t half = reads(sizes.units / 2, 50);
  CHECK(half > layers * 49 * 3 / 5);
  CHECK(half < layers * 51 * 3 / 5);
}

TEST_CASE("of experts those are read that were chosen, and the oldest leave", "[weight_stream]") {
  const OpenedModel opened = open_model(golden("models/qwen3_moe"));
  const std::int64_t experts = opened.config.experts.count;
  const UnitSizes sizes = sizes_of(opened.config);
  REQUIRE(experts == 8);
  REQUIRE(sizes.units == opened.config.layers * sizes.largest);
  const auto backend = make_cpu_backend(1);
  Transformer model(opened.config, *backend, streamed(kLimits));
  WeightStream stream(opened.weights, model, *backend, sizes.largest / experts * 3);
  const auto need = [&](std::int64_t layer, const std::vector<std::int32_t>& chosen) {
    const std::int64_t before = stream.units_read();
    stream.need(layer, chosen);
    return stream.units_read() - before;
  };
  CHECK(need(0, {}) == 0);  // all but experts is there
  CHECK(need(0, {1, 2}) == 2);
  CHECK(need(1, {1}) == 1);
  CHECK(need(0, {1, 2}) == 0);
  CHECK(need(0, {5, 2}) == 1);  // in place of layer 1's
  CHECK(need(0, {1}) == 0);
  CHECK(need(1, {1}) == 1);  // in place of 5 or 2
  CHECK(need(0, {1}) == 0);
  CHECK(contains(error_of([&] { need(0, {0, 1, 2, 3}); }), "no room for"));
}

TEST_CASE("what makes room is given back, and nothing beside it", "[weight_stream]") {
  constexpr std::int64_t kPage = 4096;
  for (const std::int64_t experts : {0, 3}) {
    CAPTURE(experts);
    const auto backend = make_cpu_backend(1);
    const DeepModel deep(*backend, experts);
    Transformer model(deep.config, *backend, streamed(kLimits));
    WeightStream stream(deep.weights, model, *backend, sizes_of(deep.config).largest);
    std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    stream.need(0, all);
    stream.need(1, all);
    std::int64_t given_back = 0;
    for (const Parameter& parameter : model.parameters()) {
      CAPTURE(parameter.name);
      const std::span<const std::byte> found(parameter.value.data,
                                             static_cast<std::size_t>(parameter.value.bytes()));
      const bool in_unit = parameter.layer >= 0 && (experts == 0 || parameter.expert >= 0);
      if (!in_unit || parameter.layer == 1) {
        const auto expected = deep.weights.find(parameter.name)->bytes;
        REQUIRE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
        REQUIRE_FALSE(all_zeros(found));
      } else if (parameter.layer == 0 && parameter.value.bytes() > 2 * kPage) {
        REQUIRE(all_zeros(found.subspan(kPage, found.size() - 2 * kPage)));
        ++given_back;
      }
    }
    CHECK(given_back == (experts == 0 ? 7 : 3 * experts));  // every matrix
  }
}

TEST_CASE("the room for layers is what the rest leaves of seven eighths", "[weight_stream]") {
  for (const std::int64_t experts : {0, 3}) {
    const ModelConfig config = DeepModel::six_layers(experts);
    std::int64_t all = 0;
    for (const MemoryLine& line : Transformer::memory(config, kLimits)) all += line.bytes;
    const UnitSizes sizes = sizes_of(config);
    const std::int64_t others = all - sizes.units;
    const auto room = [&](std::int64_t available) {
      return room_for_units(config, kLimits, available);
    };
    CHECK_FALSE(room(all).has_value());
    CHECK(room(all - 8) == (all - 8) / 8 * 7 - others);
    const std::int64_t least = (others + sizes.largest + 6) / 7 * 8;
    REQUIRE(least < all);
    CHECK(room(least) >= sizes.largest);
    CHECK(contains(error_of([&] { room(least - 8); }), "with one layer at a time"));
  }
}

TEST_CASE("types that cannot be read are refused before the first pass", "[weight_stream]") {
  const auto backend = make_cpu_backend(1);
  const DeepModel deep(*backend);
  WeightsSource odd("odd file");
  for (auto [name, tensor] : deep.weights.tensors()) {
    if (name == "model.layers.5.mlp.up_proj.weight") {
      tensor.type = StoredType::Unsupported;
      tensor.type_name = "Q5_0";
    }
    odd.add(std::move(tensor));
  }
  const auto stream = [&] {
    stream_transformer(odd, deep.config, *backend, kLimits, sizes_of(deep.config).largest);
  };
  CHECK(contains(error_of(stream), "'model.layers.5.mlp.up_proj.weight' is Q5_0; supported are"));
}

TEST_CASE("a streamed model without a stream does not run", "[weight_stream]") {
  const auto backend = make_cpu_backend(1);
  Transformer model(DeepModel::six_layers(0), *backend, streamed(kLimits));
  CHECK(contains(error_of([&] { logits_of(model); }), "nobody brings the streamed weights"));
}

TEST_CASE("a streamed model leaves out no tensor and misses none", "[weight_stream]") {
  OpenedModel opened = open_model(golden("models/qwen3"));
  const auto backend = make_cpu_backend(1);
  const std::int64_t room = sizes_of(opened.config).units * 4;
  const auto stream = [&] {
    stream_transformer(opened.weights, opened.config, *backend, kLimits, room);
  };
  opened.config.qk_norm = false;
  CHECK(contains(error_of(stream), "has no place in the model"));
  opened.config.qk_norm = true;
  opened.config.intermediate_size *= 2;
  CHECK(contains(error_of(stream), "the model's config makes it"));
}

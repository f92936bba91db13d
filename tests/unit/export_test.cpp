#include "infer/export_model.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/file_io.h"
#include "core/float16.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kModels{
    "llama", "llama_linear", "qwen3",      "qwen3_window",  "qwen3_moe",         "mistral",
    "gpt2",  "llama.gguf",   "qwen3.gguf", "qwen3moe.gguf", "sentencepiece.gguf"};

std::vector<float> values_of(const WeightsSource& weights, const StoredTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  weights.read_rows(tensor, 0, values);
  return values;
}

void require_same_model(const OpenedModel& a, const OpenedModel& b) {
  REQUIRE(a.config == b.config);
  REQUIRE(a.special.begin == b.special.begin);
  REQUIRE(a.special.begin_every_prompt == b.special.begin_every_prompt);
  REQUIRE(a.special.end == b.special.end);
  std::vector<std::int32_t> ids_a;
  std::vector<std::int32_t> ids_b;
  a.tokenizer->encode("The first th\u00e9 \u65e5<|endoftext|></s>", ids_a);
  b.tokenizer->encode("The first th\u00e9 \u65e5<|endoftext|></s>", ids_b);
  if (a.kind == "GGUF file") REQUIRE(ids_a == ids_b);  // the golden folders have no tokenizer
}

}  // namespace

TEST_CASE("an exported model is the same model, in one file and in many", "[export]") {
  for (const std::string& name : kModels) {
    INFO(name);
    const OpenedModel model = open_model(golden("models") / name);
    const TemporaryFolder folder;
    export_model(model, folder.path() / "out",
                 {.type = StoredType::F32, .shard_bytes = name == "gpt2" ? 1 << 20 : 20'000});
    REQUIRE(fs::exists(folder.path() / "out/model.safetensors.index.json") == (name != "gpt2"));
    const OpenedModel again = open_model(folder.path() / "out");
    require_same_model(model, again);
    for (const auto& [tensor_name, tensor] : again.weights.tensors()) {
      INFO(tensor_name);
      const auto exported = values_of(again.weights, tensor);
      const auto original = values_of(model.weights, *model.weights.find(tensor_name));
      REQUIRE(exported.size() == original.size());
      REQUIRE(std::memcmp(exported.data(), original.data(), exported.size() * 4) == 0);
    }
  }
}

TEST_CASE("weights are rounded to the type that is asked for", "[export]") {
  const OpenedModel model = open_model(golden("models/gpt2"));
  for (const StoredType type : {StoredType::BF16, StoredType::F16}) {
    const TemporaryFolder folder;
    export_model(model, folder.path(), {.type = type});
    const OpenedModel again = open_model(folder.path());
    for (const auto& [name, tensor] : again.weights.tensors()) {
      REQUIRE(tensor.type == type);
      const auto exported = values_of(again.weights, tensor);
      const auto original = values_of(model.weights, *model.weights.find(name));
      const double unit = type == StoredType::BF16 ? 0x1p-8 : 0x1p-11;
      for (std::size_t i = 0; i < exported.size(); ++i) {
        const double limit = std::abs(double{original[i]}) * unit + 0x1p-25;
        REQUIRE(std::abs(double{exported[i]} - double{original[i]}) <= limit);
      }
    }
  }
}

TEST_CASE("every half comes back from float32, and others round to the nearest", "[export]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7FFFU) <= 0x7C00U) REQUIRE(float_to_half(half_to_float(half)) == half);
    if ((bits & 0x7FFFU) <= 0x7F80U) REQUIRE(float_to_bf16(bf16_to_float(half)) == half);
  }
  REQUIRE(float_to_half(1 + 0x1p-11F) == 0x3C00);  // ties to even
  REQUIRE(float_to_half(1 + 0x1p-11F + 0x1p-20F) == 0x3C01);
  REQUIRE(float_to_half(1 + 3 * 0x1p-11F) == 0x3C02);
  REQUIRE(float_to_half(65519) == 0x7BFF);
  REQUIRE(float_to_half(65520) == 0x7C00);
  REQUIRE(float_to_half(0x1p-25F) == 0);
  REQUIRE(float_to_half(0x1.8p-24F) == 2);
  REQUIRE(float_to_bf16(1 + 0x1p-8F) == 0x3F80);
  REQUIRE(float_to_bf16(1 + 3 * 0x1p-8F) == 0x3F82);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(std::isnan(half_to_float(float_to_half(nan))));
  REQUIRE(std::isnan(bf16_to_float(float_to_bf16(nan))));
}

TEST_CASE("a folder that has a model is not written over", "[export]") {
  const OpenedModel model = open_model(golden("models/qwen3"));
  const TemporaryFolder folder;
  export_model(model, folder.path(), {});
  REQUIRE(contains(error_of([&] { export_model(model, folder.path(), {}); }),
                   "already has a config.json"));
}

TEST_CASE("what cannot be opened is refused in one line", "[export]") {
  const TemporaryFolder folder;
  const auto message = [&](const fs::path& path) { return error_of([&] { open_model(path); }); };
  const auto copy_of = [&](const std::string& name, auto change) {
    const fs::path copy = folder.path() / "copy";
    fs::remove_all(copy);
    fs::copy(golden("models") / name, copy);
    change(copy);
    return copy;
  };
  const auto with_config = [&](const std::string& name, const std::string& from,
                               const std::string& to) {
    return message(copy_of(name, [&](const fs::path& copy) {
      std::string text = read_text_file(copy / "config.json");
      const std::size_t at = text.find(from);
      REQUIRE(at != std::string::npos);
      write_file_atomically(copy / "config.json", text.replace(at, from.size(), to));
    }));
  };
  REQUIRE(contains(message(folder.path() / "none"), "no such file"));
  REQUIRE(contains(message(folder.path()), "no model; expected a run's folder"));
  REQUIRE(contains(with_config("qwen3", "\"qwen3\"", "\"qwen9\""),
                   "config.json: model_type: \"qwen9\" is not supported; expected \"llama\""));
  REQUIRE(contains(with_config("llama", "\"llama3\"", "\"yarn\""),
                   "config.json: rope_scaling.rope_type: \"yarn\" is not supported"));
  REQUIRE(contains(with_config("llama", "\"silu\"", "\"relu\""),
                   "config.json: hidden_act: \"relu\" is not supported; expected \"silu\""));
  REQUIRE(contains(with_config("gpt2", "\"n_embd\": 32", "\"n_embd\": \"32\""),
                   "config.json: n_embd: \"32\" is not supported; expected a whole number"));
  REQUIRE(contains(with_config("llama", "\"use_cache\"", "\"quantization_config\": {}, \"x\""),
                   "quantization_config: {} is not supported"));
  REQUIRE(contains(message(copy_of("llama",
                                   [](const fs::path& copy) {
                                     fs::remove(copy / "model-00002-of-00002.safetensors");
                                   })),
                   "model-00002-of-00002.safetensors"));
  REQUIRE(contains(
      message(copy_of(
          "gpt2", [](const fs::path& copy) { fs::resize_file(copy / "model.safetensors", 5000); })),
      "model.safetensors"));
  const fs::path cut = folder.path() / "cut.gguf";
  fs::copy_file(golden("models/llama.gguf"), cut);
  fs::resize_file(cut, fs::file_size(cut) - 1000);
  REQUIRE(contains(message(cut), "cut off"));
  write_file_atomically(folder.path() / "some.bin", "nothing");
  REQUIRE(contains(message(folder.path() / "some.bin"), "header of a llama2.c model"));
}

TEST_CASE("a tensor of another shape and one too many are named", "[export]") {
  const OpenedModel qwen3 = open_model(golden("models/qwen3"));
  OpenedModel biased = open_model(golden("models/llama"));
  biased.config.attention_bias = false;
  const TemporaryFolder folder;
  REQUIRE(contains(error_of([&] { export_model(biased, folder.path(), {}); }),
                   "self_attn.k_proj.bias' has no place in the model"));
  OpenedModel wide = open_model(golden("models/qwen3"));
  wide.config.head_dim = 8;
  REQUIRE(contains(error_of([&] { export_model(wide, folder.path(), {}); }),
                   "is [64, 32], the model's config makes it [32, 32]"));
}

TEST_CASE("a model that does not fit into memory is refused with the figure", "[export]") {
  ModelConfig config;
  config.hidden_size = 1 << 16;
  config.intermediate_size = 1 << 18;
  config.heads = 512;
  config.layers = 100;
  const std::string message = error_of([&] {
    room_for_units(config, {.max_tokens = 128, .max_sequences = 1}, std::int64_t{64} << 30);
  });
  REQUIRE(contains(message, "GiB are available"));
}

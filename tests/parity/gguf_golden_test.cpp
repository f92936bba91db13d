#include "infer/load_model.h"
#include "support/golden_logits.h"
#include "support/test_data.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;
using namespace flywheel::test;

// Files that the gguf package wrote, and what it and transformers make of them:
// tests/oracle/gguf_golden.py.
namespace {

std::vector<float> read_all(const WeightsSource& weights, const std::string& name) {
  const StoredTensor* tensor = weights.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
  weights.read_rows(*tensor, 0, values);
  return values;
}

}  // namespace

TEST_CASE("GGUF files give transformers' logits", "[import]") {
  for (const std::string name : {"llama", "qwen3", "qwen3moe", "sentencepiece"}) {
    const OpenedModel model = open_model(golden("models/" + name + ".gguf"));
    REQUIRE(model.kind == "GGUF file");
    require_golden_logits(model, golden("models/" + name + ".safetensors"));
  }
}

TEST_CASE("blocks of GGUF files are the gguf package's floats, bit by bit", "[import]") {
  for (const std::string name : {"llama", "qwen3"}) {
    const OpenedModel model = open_model(golden("models/" + name + ".gguf"));
    const SafetensorsReader file(golden("models/" + name + ".safetensors"));
    int compared = 0;
    for (const SafetensorsEntry& entry : file.entries()) {
      if (!entry.name.starts_with("model.")) continue;
      INFO(name << " " << entry.name << " " << model.weights.find(entry.name)->type_name);
      REQUIRE(model.weights.find(entry.name)->shape == entry.shape);
      const std::vector<float> values = read_all(model.weights, entry.name);
      REQUIRE(std::memcmp(values.data(), entry.bytes.data(), entry.bytes.size()) == 0);
      ++compared;
    }
    REQUIRE(compared == 5);
  }
}

TEST_CASE("K-quants are the gguf package's floats, bit by bit", "[import]") {
  const SafetensorsReader file(golden("models/k_quants.safetensors"));
  for (const std::string name : {"Q4_K", "Q5_K", "Q6_K"}) {
    INFO(name);
    const SafetensorsEntry& blocks = *file.find(name + ".blocks");
    const SafetensorsEntry& expected = *file.find(name);
    std::vector<float> values(expected.bytes.size() / sizeof(float));
    REQUIRE(block_of(stored_type(name)).bytes == blocks.shape[1]);
    to_floats(stored_type(name), blocks.bytes.data(), values);
    CHECK(std::memcmp(values.data(), expected.bytes.data(), expected.bytes.size()) == 0);
  }
}

TEST_CASE("the metadata of GGUF files becomes config, tokenizer and special tokens", "[import]") {
  const OpenedModel llama = open_model(golden("models/llama.gguf"));
  REQUIRE(llama.config.rope_scaling.kind == RopeScalingKind::Llama3);
  REQUIRE(llama.config.rope_scaling.factor == Approx(8));
  REQUIRE(llama.config.tie_embeddings);
  REQUIRE(llama.special.begin == 256);
  REQUIRE(llama.special.begin_every_prompt);
  REQUIRE(llama.special.end == std::vector<std::int32_t>{256});
  REQUIRE(test::encode(*llama.tokenizer, "the tha<|endoftext|>") == Ids{257, 68, 258, 64, 256});
  const OpenedModel qwen3 = open_model(golden("models/qwen3.gguf"));
  REQUIRE(qwen3.config.qk_norm);
  REQUIRE(qwen3.config.rope_theta == 1e6);
  REQUIRE(!qwen3.special.begin_every_prompt);
}

TEST_CASE("scores of pieces give the reference library's ids", "[import]") {
  const OpenedModel model = open_model(golden("models/sentencepiece.gguf"));
  const std::vector<std::string> texts = difficult_texts();
  const std::vector<Ids> expected = golden_ids("sentencepiece_style");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i, escaped(texts[i]));
    CHECK(test::encode(*model.tokenizer, texts[i]) == expected[i]);
  }
}

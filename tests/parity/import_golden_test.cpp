#include <cstring>

#include "support/golden_logits.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

// Folders that transformers wrote, and what it computes with them: tests/oracle/import_golden.py.

TEST_CASE("models of transformers give its logits", "[import]") {
  for (const char* name :
       {"llama", "llama_linear", "qwen3", "qwen3_window", "qwen3_moe", "mistral", "gpt2"}) {
    const auto folder = golden("models") / name;
    const OpenedModel model = open_model(folder);
    REQUIRE(model.kind == "Hugging Face folder");
    REQUIRE(model.special.begin == 256);
    REQUIRE(model.special.end == std::vector<std::int32_t>{256});
    require_golden_logits(model, folder / "logits.safetensors");
  }
}

TEST_CASE("the golden logits tell a wrong model from a right one", "[import]") {
  const auto changed = [](const char* name, auto change) {
    const auto folder = golden("models") / name;
    OpenedModel model = open_model(folder);
    change(model.config);
    const SafetensorsReader file(folder / "logits.safetensors");
    const SafetensorsEntry* tokens = file.find("tokens");
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->elements()));
    std::memcpy(ids.data(), tokens->bytes.data(), tokens->bytes.size());
    const auto exact = floats_of(file, "logits");
    const auto logits = logits_of(model, ids);
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      worst = std::max(worst, std::abs(double{logits[i]} - double{exact[i]}));
    }
    return worst;
  };
  REQUIRE(changed("llama", [](ModelConfig& c) { c.rope_scaling.kind = RopeScalingKind::None; }) >
          1e-3);
  REQUIRE(changed("llama_linear", [](ModelConfig& c) { c.rope_scaling.factor = 1; }) > 1e-3);
  REQUIRE(changed("mistral", [](ModelConfig& c) { c.attention.window += 1; }) > 1e-3);
  REQUIRE(changed("qwen3_window", [](ModelConfig& c) { c.attention.window -= 1; }) > 1e-3);
}

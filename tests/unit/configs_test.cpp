// The configs that come with the program.

#include <filesystem>
#include <string>

#include "model/transformer.h"
#include "support/catch.h"
#include "train/train_config.h"

namespace flywheel {
namespace {

TEST_CASE("every config in configs/ is valid") {
  int configs = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    INFO(entry.path().string());
    CHECK_NOTHROW(load_run_config(entry.path(), {}));
    ++configs;
  }
  CHECK(configs >= 5);
}

TEST_CASE("gpt_360m is the reference size, with each pattern") {
  for (const std::string pattern : {"full", "swa", "sa", "sa_swa"}) {
    INFO(pattern);
    const RunConfig config = load_run_config("configs/gpt_360m_" + pattern + ".json", {});
    const auto layers = resolve_layers(config.model);
    REQUIRE(layers.size() == 24);
    CHECK(layers[0].gated == (pattern == "sa_swa"));

    const ModelCost cost = Transformer::cost(config.model, config.data.sequence_length);
    // Without the gates of 2 (d H + H) parameters a layer.
    const std::int64_t gates = pattern == "sa_swa" ? 24 * 2 * (1024 * 16 + 16) : 0;
    CHECK(cost.parameters - gates == 359794688);
    CHECK(*config.train.max_steps == 28611);  // 15B tokens, rounded up to whole steps
  }
}

}  // namespace
}  // namespace flywheel

#include <cstdlib>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "cpu/cpu_backend.h"
#include "eval/evaluation.h"
#include "infer/load_model.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

// Against lm-evaluation-harness on a real model: tests/oracle/compare_smollm2.py made the numbers
// and says where the model comes from.
namespace {

constexpr const char* kModel = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr double kTolerance = 1e-4;  // both sides compute in float32
constexpr std::int64_t kMaxLengthOfWikitext = 2048;

std::optional<fs::path> find_model() {
  if (const char* path = std::getenv("FLYWHEEL_SMOLLM2")) return fs::path(path);
  return real_data(std::string("models/") + kModel);
}

struct RealModel {
  explicit RealModel(const fs::path& path) : opened(open_model(path)) {
    limits.max_attention_rows = 2 * limits.max_tokens;
  }

  OpenedModel opened;
  TransformerLimits limits{.max_tokens = 4096, .max_sequences = 256, .training = false};
  std::unique_ptr<Backend> backend = make_cpu_backend(0);
};

void check_documents(const TaskResult& result, const Json& expected) {
  const Json& lls = expected.at("lls");
  REQUIRE(result.documents.size() == lls.size());
  for (std::size_t i = 0; i < lls.size(); ++i) {
    INFO("document " << i);
    const std::vector<Score>& scores = result.documents[i].score.requests;
    REQUIRE(scores.size() == lls[i].size());
    for (std::size_t r = 0; r < scores.size(); ++r) {
      const double ll = lls[i][r].get<double>();
      CHECK(scores[r].log_likelihood == Approx(ll).epsilon(kTolerance).margin(1e-5));
      if (!expected.contains("greedy")) continue;
      CHECK(scores[r].is_greedy == (expected.at("greedy")[i].get<std::string>().at(r) == '1'));
    }
  }
}

}  // namespace

TEST_CASE("SmolLM2-135M scores as under the harness", "[evaluate]") {
  const auto path = find_model();
  const auto data = real_data("wikitext2/wiki.test.raw");
  if (!path || !data) {
    WARN("skipped: needs the real data, and FLYWHEEL_SMOLLM2 to name " << kModel);
    return;
  }
  RealModel real(*path);
  const auto model =
      load_transformer(real.opened.weights, real.opened.config, *real.backend, real.limits);
  Scorer scorer(*model, real.limits, 0);
  const Json golden_tasks = Json::parse(read_text_file(golden("evaluate/smollm2.json")));
  for (const auto& [name, expected] : golden_tasks.items()) {
    INFO(name);
    const EvaluationOptions options{.data = data->parent_path().parent_path(),
                                    .limit = static_cast<double>(expected.at("lls").size())};
    TaskResult result = prepare_task(TaskRegistry().select(name).at(0), options);
    const std::int64_t length = name == "wikitext" ? kMaxLengthOfWikitext : real.limits.max_tokens;
    const RequestEncoder encoder(*real.opened.tokenizer,
                                 {.prefix_token = real.opened.special.begin, .max_length = length});
    evaluate_task(result, *model, scorer, encoder, options, {});
    check_documents(result, expected);
    for (const MetricResult& metric : result.metrics) {
      if (!expected.at("metrics").contains(metric.name)) continue;
      INFO(metric.name);
      CHECK(metric.value ==
            Approx(expected.at("metrics").at(metric.name).get<double>()).epsilon(kTolerance));
    }
  }
}

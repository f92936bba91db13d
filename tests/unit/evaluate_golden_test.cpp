#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <sstream>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "core/sha256.h"
#include "cpu/cpu_backend.h"
#include "eval/evaluation.h"
#include "eval/prefix_token.h"
#include "eval/results_json.h"
#include "infer/load_model.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

// Against lm-evaluation-harness: tests/oracle/evaluate_golden.py made the files and says what is in
// them.
namespace {

struct TinyModel {
  OpenedModel opened = open_model(golden("evaluate/model"));
  const Tokenizer* tokenizer = opened.tokenizer.get();
  TransformerLimits limits{.max_tokens = 1024, .max_sequences = 16, .training = false};
  std::unique_ptr<Backend> backend = make_cpu_backend(2);
  std::unique_ptr<Transformer> loaded =
      load_transformer(opened.weights, opened.config, *backend, limits);
  Transformer& model = *loaded;
  Scorer scorer{model, limits, 0};

  RequestEncoder encoder(std::int64_t max_length) const {
    return {*tokenizer,
            {.prefix_token = prefix_token(opened.path, *tokenizer), .max_length = max_length}};
  }
};

Json read_golden(const std::string& name) {
  return Json::parse(read_text_file(golden("evaluate/" + name)));
}

std::string digest(const Json& json) {
  return sha256(json.dump()).substr(0, 16);
}

// A document's requests as pairs, or as single strings where there is no continuation.
Json requests_of(const EvaluatedDocument& document, bool rolling) {
  Json requests = Json::array();
  for (const TextRequest& request : document.requests) {
    Json parts{request.context};
    if (!rolling) parts.push_back(request.continuation);
    requests.push_back(std::move(parts));
  }
  return requests;
}

Json tokens_of(const EvaluatedDocument& document, bool rolling, const RequestEncoder& encoder) {
  Json tokens = Json::array();
  for (const TextRequest& request : document.requests) {
    if (rolling) {
      tokens.push_back(Json::array({encoder.tokens_of(request.context)}));
      continue;
    }
    const TokenRequest encoded = encoder.encode(request);
    const auto middle = encoded.tokens.begin() + encoded.first_scored;
    tokens.push_back(Json::array(
        {std::vector(encoded.tokens.begin(), middle), std::vector(middle, encoded.tokens.end())}));
  }
  return tokens;
}

std::string four_decimals(double value) {
  return fmt::format("{:.4f}", value);
}

void check_scores(const DocumentScore& score, const Json& expected) {
  REQUIRE(score.requests.size() == expected.at("lls").size());
  for (std::size_t i = 0; i < score.requests.size(); ++i) {
    const double ll = expected.at("lls")[i].get<double>();
    REQUIRE(score.requests[i].log_likelihood == Approx(ll).epsilon(2e-6));
    if (expected.contains("greedy")) {
      REQUIRE(score.requests[i].is_greedy == expected.at("greedy")[i].get<bool>());
    }
  }
}

void check_metrics(const TaskResult& result, const Json& expected) {
  for (const MetricResult& metric : result.metrics) {
    INFO(metric.name);
    const double value = expected.at(metric.name + ",none").get<double>();
    CHECK(metric.value == Approx(value).epsilon(1e-5));
    // Beyond it, four decimals are more than float32 can give.
    if (value < 100) CHECK(four_decimals(metric.value) == four_decimals(value));
    const Json& error = expected.at(metric.name + "_stderr,none");
    REQUIRE(metric.error.has_value() == error.is_number());
    if (metric.error) CHECK(*metric.error == Approx(error.get<double>()).epsilon(1e-4));
  }
}

TaskResult run(TinyModel& tiny, const Task& task, const EvaluationOptions& options) {
  TaskResult result = prepare_task(task, options);
  evaluate_task(result, tiny.model, tiny.scorer, tiny.encoder(tiny.opened.config.max_positions),
                options, {});
  return result;
}

void check_small(const Json& expected, std::int64_t shots) {
  TinyModel tiny;
  const RequestEncoder whole = tiny.encoder(1 << 20);
  for (const auto& [name, entry] : expected.items()) {
    const Task task = TaskRegistry().select(name).at(0);
    const bool rolling = task.kind == TaskKind::Rolling;
    const TaskResult result =
        run(tiny, task,
            {.data = golden("evaluate/data"), .shots = shots, .bootstrap_iterations = 2000});
    const Json& documents = entry.at("documents");
    REQUIRE(result.documents.size() == documents.size());
    const std::string samples = samples_jsonl(result);
    std::istringstream lines(samples);
    for (std::size_t i = 0; i < documents.size(); ++i) {
      INFO(name << ", document " << i);
      const EvaluatedDocument& document = result.documents[i];
      REQUIRE(requests_of(document, rolling) == documents[i].at("requests"));
      REQUIRE(digest(tokens_of(document, rolling, whole)) == documents[i].at("tokens"));
      check_scores(document.score, documents[i]);
      std::string line;
      std::getline(lines, line);
      const Json sample = Json::parse(line);
      for (const char* key : {"doc", "target", "doc_hash", "prompt_hash", "target_hash"}) {
        CHECK(sample.at(key) == documents[i].at(key));
      }
    }
    INFO(name);
    CHECK(std::stod(task.version) == entry.at("version").get<double>());
    check_metrics(result, entry.at("metrics"));
  }
}

}  // namespace

TEST_CASE("every task gives the harness's strings, tokens, scores and metrics", "[evaluate]") {
  check_small(read_golden("small.json").at("zero_shot"), 0);
}

TEST_CASE("examples before a question are the harness's", "[evaluate]") {
  check_small(read_golden("small.json").at("two_shot"), 2);
}

// Counts that published scores of the whole set imply.
TEST_CASE("WikiText has its pages, words and bytes", "[evaluate]") {
  const auto file = real_data("wikitext2/wiki.test.raw");
  if (!file) {
    WARN("skipped: no real data");
    return;
  }
  const std::vector<Item> pages = TaskRegistry().select("wikitext").at(0).read(*file);
  REQUIRE(pages.size() == 62);
  std::int64_t words = 0;
  std::int64_t bytes = 0;
  std::int64_t detokenized = 0;
  for (const Item& page : pages) {
    words += page.words;
    bytes += page.bytes;
    detokenized += std::ssize(page.choices[0]);
  }
  CHECK(words == 241'335);
  CHECK(bytes == 1'290'527);
  CHECK(detokenized == 1'240'466);
}

TEST_CASE("50 real documents of every task agree with the harness", "[evaluate]") {
  const auto data = real_data("wikitext2/wiki.test.raw");
  if (!data) {
    WARN("skipped: no real data");
    return;
  }
  TinyModel tiny;
  const RequestEncoder whole = tiny.encoder(1 << 20);
  const Json all = read_golden("real.json");
  for (const auto& [name, entry] : all.items()) {
    INFO(name);
    const Task task = TaskRegistry().select(name).at(0);
    const bool rolling = task.kind == TaskKind::Rolling;
    const TaskResult result =
        run(tiny, task,
            {.data = data->parent_path().parent_path(), .limit = 50, .bootstrap_iterations = 2000});
    const Json& documents = entry.at("documents");
    REQUIRE(result.documents.size() == documents.size());
    for (std::size_t i = 0; i < documents.size(); ++i) {
      INFO("document " << i);
      const EvaluatedDocument& document = result.documents[i];
      REQUIRE(digest(requests_of(document, rolling)) == documents[i].at("requests"));
      REQUIRE(digest(tokens_of(document, rolling, whole)) == documents[i].at("tokens"));
      REQUIRE(sha256(document.item.target).substr(0, 16) == documents[i].at("target"));
      check_scores(document.score, documents[i]);
    }
    check_metrics(result, entry.at("metrics"));
  }
}

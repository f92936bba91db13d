#include "eval/program_task.h"

#include "core/error.h"
#include "eval/program_runner.h"

namespace flywheel {
namespace {

// Up to the first of `until`.
std::string cut(std::string text, const std::vector<std::string>& until) {
  for (const std::string& end : until) text.resize(std::min(text.find(end), text.size()));
  return text;
}

std::vector<std::vector<std::int32_t>> prompts_of(TaskResult& task, const RequestEncoder& encoder) {
  const std::int64_t room = encoder.options().max_length - task.task.writing.max_tokens;
  require(room > 0, ErrorKind::Config,
          "{}: the model reads {} tokens at once; {} are needed for what it writes alone",
          task.task.name, encoder.options().max_length, task.task.writing.max_tokens);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const EvaluatedDocument& document : task.documents) {
    std::vector<std::int32_t>& prompt =
        prompts.emplace_back(encoder.tokens_of(document.requests.at(0).context));
    if (std::ssize(prompt) <= room) continue;
    prompt.erase(prompt.begin(), prompt.end() - room);
    ++task.cut_requests;
  }
  return prompts;
}

// Of the passes over the prompts.
double visible_keys(const ModelConfig& config, std::vector<std::vector<std::int32_t>> prompts) {
  std::vector<TokenRequest> requests;
  for (std::vector<std::int32_t>& prompt : prompts) {
    prompt.push_back(0);  // a request's last token is no input
    requests.push_back({.tokens = std::move(prompt)});
  }
  return mean_visible_keys(config, requests);
}

}  // namespace

void evaluate_program_task(TaskResult& task, const ModelConfig& config,
                           const RequestEncoder& encoder, const Writer& writer) {
  const auto prompts = prompts_of(task, encoder);
  task.mean_visible_keys = visible_keys(config, prompts);
  std::vector<std::string> outputs = writer(prompts, task.task.writing);
  std::vector<DocumentMetric> metrics;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EvaluatedDocument& document = task.documents[i];
    document.score.output = cut(std::move(outputs[i]), task.task.writing.until);
    document.score.passed = runs_to_its_end(program_of(document));
    metrics.push_back(document_metric(task.task.metrics.at(0), document.item, document.score));
  }
  const MetricValue value = aggregate(task.task.metrics.at(0), metrics, 0);
  task.metrics = {{.name = task.task.metrics.at(0),
                   .value = value.value,
                   .error = value.error,
                   .draws = {value.value}}};
}

}  // namespace flywheel

#include "eval/results_json.h"

#include "core/checksum.h"
#include "core/json_fields.h"
#include "core/sha256.h"
#include "eval/result_files.h"

namespace flywheel {
namespace {

Json number_or_na(const std::optional<double>& value) {
  return value ? Json(*value) : Json("N/A");
}

Json scores_json(const std::string& name, const std::string& alias, const std::string& filter,
                 std::int64_t documents, const std::vector<MetricResult>& metrics) {
  Json json{{"name", name}, {"alias", alias}, {"sample_len", documents}};
  for (const MetricResult& metric : metrics) {
    json[metric.name + "," + filter] = metric.value;
    json[metric.name + "_stderr," + filter] = number_or_na(metric.error);
  }
  return json;
}

std::string output_type(TaskKind kind) {
  switch (kind) {
    case TaskKind::Choice:
      return "multiple_choice";
    case TaskKind::Cloze:
      return "loglikelihood";
    case TaskKind::Rolling:
      return "loglikelihood_rolling";
    case TaskKind::Recall:
      return "recall";
    case TaskKind::Program:
      return "generate_until";
  }
  return "";
}

Json task_config(const TaskResult& result) {
  const Task& task = result.task;
  Json metrics = Json::array();
  for (const std::string& metric : task.metrics) {
    metrics.push_back({{"metric", metric}, {"higher_is_better", higher_is_better(metric)}});
  }
  return {{"task", task.name},
          {"dataset_path", task.dataset},
          {"split", task.split},
          {"output_type", output_type(task.kind)},
          {"description", task.description},
          {"target_delimiter", task.delimiter},
          {"fewshot_delimiter", "\n\n"},
          {"num_fewshot", result.shots},
          {"metric_list", std::move(metrics)},
          {"metadata", {{"version", task.version}}},
          {"data_file", result.file.string()},
          {"data_sha256", result.file_hash}};
}

Json directions(const std::vector<std::string>& metrics) {
  Json json = Json::object();
  for (const std::string& metric : metrics) json[metric] = higher_is_better(metric);
  return json;
}

Json draws_json(const std::vector<MetricResult>& metrics) {
  Json json = Json::object();
  for (const MetricResult& metric : metrics) json[metric.name] = metric.draws;
  return json;
}

// What only our files have: everything that a score depends on.
Json flywheel_section(const EvaluationResults& results, const EvaluationRecord& record) {
  Json json{{"attention", record.attention_text},
            {"attention_override", write_fields(record.attention)},
            {"weights", name_of(record.weights)},
            {"seed", record.seed},
            {"draws", record.options.draws},
            {"prefix_token", record.prefix_token},
            {"bos", record.add_prefix ? "always" : "never"},
            {"batch_tokens", record.batch_tokens},
            {"stride", record.options.stride},
            {"tokenizer_fingerprint", checksum_text(record.tokenizer_fingerprint)}};
  for (const TaskResult& result : results.tasks) {
    json["tasks"][result.task.name] = {{"mean_visible_keys", result.mean_visible_keys},
                                       {"scored_tokens", result.scored_tokens},
                                       {"requests_cut_at_the_left", result.cut_requests},
                                       {"draws", draws_json(result.metrics)}};
  }
  for (const GroupResult& result : results.groups) {
    json["groups"][result.group.name] = {{"draws", draws_json(result.metrics)}};
  }
  return json;
}

Json run_config(const EvaluationRecord& record) {
  return {{"model", "flywheel"},
          {"model_args", {{"pretrained", record.model_name}}},
          {"model_num_parameters", record.model_parameters},
          {"model_dtype", "float32"},
          {"model_revision", ""},
          {"model_sha", ""},
          {"batch_size", record.batch_tokens},
          {"batch_sizes", Json::array()},
          {"device", "cpu"},
          {"use_cache", nullptr},
          {"limit", record.options.limit ? Json(*record.options.limit) : Json(nullptr)},
          {"bootstrap_iters", record.options.bootstrap_iterations},
          {"gen_kwargs", nullptr},
          {"random_seed", 0},
          {"numpy_seed", 1234},
          {"torch_seed", 1234},
          {"fewshot_seed", 1234}};
}

struct DocumentHashes {
  std::string document, prompt, target;
};

DocumentHashes hashes_of(const EvaluatedDocument& document) {
  return {sha256(Json::parse(document.item.document).dump(2)),
          sha256(document.requests.at(0).context), sha256(document.item.target)};
}

std::string task_hash(const TaskResult& task) {
  std::string all;
  for (const EvaluatedDocument& document : task.documents) {
    const DocumentHashes hashes = hashes_of(document);
    all += hashes.document + hashes.prompt + hashes.target;
  }
  return sha256(all);
}

// A number as a string, as sample files have them.
std::string quoted(double value) {
  return Json(value).dump();
}

// What was asked and what came back, as a sample file shows it.
struct Exchange {
  Json arguments = Json::object();
  Json responses = Json::array();
  Json filtered = Json::array();
};

Exchange written(const Task& task, const EvaluatedDocument& document) {
  Exchange exchange;
  exchange.arguments["gen_args_0"] = {{"arg_0", document.requests.at(0).context},
                                      {"arg_1",
                                       {{"until", task.writing.until},
                                        {"max_gen_toks", task.writing.max_tokens},
                                        {"do_sample", false}}}};
  exchange.responses.push_back(Json::array({document.score.output}));
  exchange.filtered.push_back(
      Json::array({document.requests.at(0).context + document.score.output}));
  return exchange;
}

Exchange scored(const EvaluatedDocument& document, bool rolling) {
  Exchange exchange;
  for (std::size_t i = 0; i < document.requests.size(); ++i) {
    Json& argument = exchange.arguments["gen_args_" + std::to_string(i)];
    argument["arg_0"] = document.requests[i].context;
    const Score& score = document.score.requests.at(i);
    const std::string value = quoted(score.log_likelihood);
    Json response = value;
    if (!rolling) {
      argument["arg_1"] = document.requests[i].continuation;
      response = {value, score.is_greedy ? "True" : "False"};
    }
    exchange.responses.push_back(Json::array({response}));
    exchange.filtered.push_back(std::move(response));
  }
  return exchange;
}

Json sample_json(const TaskResult& task, std::size_t index) {
  const EvaluatedDocument& document = task.documents[index];
  const bool rolling = task.task.kind == TaskKind::Rolling || task.task.kind == TaskKind::Recall;
  Exchange exchange = task.task.kind == TaskKind::Program ? written(task.task, document)
                                                          : scored(document, rolling);
  const DocumentHashes hashes = hashes_of(document);
  Json json{{"doc_id", index},
            {"doc", Json::parse(document.item.document)},
            {"target", document.item.target},
            {"arguments", std::move(exchange.arguments)},
            {"resps", std::move(exchange.responses)},
            {"filtered_resps", std::move(exchange.filtered)},
            {"filter", task.task.filter},
            {"metrics", task.task.metrics},
            {"doc_hash", hashes.document},
            {"prompt_hash", hashes.prompt},
            {"target_hash", hashes.target}};
  if (task.task.kind == TaskKind::Recall) return json;
  for (const std::string& metric : task.task.metrics) {
    const DocumentMetric value = document_metric(metric, document.item, document.score);
    json[metric] = rolling ? Json{value.value, value.weight} : Json(value.value);
  }
  return json;
}

}  // namespace

std::string results_json(const EvaluationResults& results, const EvaluationRecord& record,
                         double unix_time) {
  Json json;
  for (const char* key : {"results", "groups", "group_subtasks", "configs", "versions", "n-shot",
                          "higher_is_better", "n-samples"}) {
    json[key] = Json::object();
  }
  for (const GroupResult& result : results.groups) {
    const std::string& name = result.group.name;
    json["results"][name] =
        scores_json(name, result.group.alias, "none", result.documents, result.metrics);
    json["groups"][name] = json["results"][name];
    json["group_subtasks"][name] = result.group.members;
    json["versions"][name] = result.group.version;
    json["higher_is_better"][name] = directions(result.group.metrics);
  }
  for (const TaskResult& result : results.tasks) {
    const std::string& name = result.task.name;
    const std::int64_t count = std::ssize(result.documents);
    json["results"][name] =
        scores_json(name, result.task.alias, result.task.filter, count, result.metrics);
    json["configs"][name] = task_config(result);
    json["versions"][name] = std::stod(result.task.version);
    json["n-shot"][name] = result.shots;
    json["higher_is_better"][name] = directions(result.task.metrics);
    json["n-samples"][name] = {{"original", result.documents_in_file}, {"effective", count}};
  }
  if (results.groups.empty()) json.erase("groups");
  json["config"] = run_config(record);
  json["date"] = unix_time;
  json["max_length"] = record.max_length;
  json["task_hashes"] = Json::object();
  for (const TaskResult& result : results.tasks) {
    json["task_hashes"][result.task.name] = task_hash(result);
  }
  json["model_source"] = "flywheel";
  json["model_name"] = record.model_name;
  json["model_name_sanitized"] = sanitized_model_name(record.model_name);
  json["total_evaluation_time_seconds"] = quoted(record.seconds);
  json["flywheel"] = flywheel_section(results, record);
  return json.dump(2) + "\n";
}

std::string samples_jsonl(const TaskResult& task) {
  std::string lines;
  for (std::size_t i = 0; i < task.documents.size(); ++i) {
    lines += sample_json(task, i).dump() + "\n";
  }
  return lines;
}

}  // namespace flywheel

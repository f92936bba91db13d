#include "eval/evaluation.h"

#include <fmt/ranges.h>

#include <cmath>

#include "core/error.h"
#include "core/file_io.h"
#include "core/sha256.h"
#include "eval/prompts.h"
#include "eval/recall.h"
#include "eval/statistics.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

fs::path find_file(const Task& task, const DataFile& file, const EvaluationOptions& options) {
  if (file.names.empty()) {
    require(!options.text.empty(), ErrorKind::Config, "task {} reads a file of yours: --text FILE",
            task.name);
    return options.text;
  }
  require(!options.data.empty(), ErrorKind::Config,
          "task {} reads {}: name the folder of the data sets with --data (or FLYWHEEL_DATA)",
          task.name, file.names.front());
  for (const std::string& name : file.names) {
    if (fs::exists(options.data / name)) return options.data / name;
  }
  fail(ErrorKind::Data, "task {}: {} has none of {}; put there {}", task.name,
       options.data.string(), fmt::join(file.names, ", "), file.source);
}

std::int64_t documents_wanted(std::int64_t all, const std::optional<double>& limit) {
  if (!limit) return all;
  require(*limit > 0, ErrorKind::Config, "--limit {}: expected a positive number", *limit);
  const double wanted = *limit < 1 ? std::ceil(static_cast<double>(all) * *limit) : *limit;
  return wanted < static_cast<double>(all) ? static_cast<std::int64_t>(wanted) : all;
}

// Requests in one row, and back.
struct FlatRequests {
  std::vector<TokenRequest> requests;
  std::vector<std::size_t> documents;  // of each request
};

FlatRequests flatten(std::vector<std::vector<TokenRequest>>&& documents) {
  FlatRequests flat;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    for (TokenRequest& request : documents[i]) {
      flat.requests.push_back(std::move(request));
      flat.documents.push_back(i);
    }
  }
  return flat;
}

std::vector<DocumentScore> gather(const TaskResult& task, const FlatRequests& flat,
                                  const std::vector<std::vector<TokenScore>>& scores) {
  std::vector<DocumentScore> documents(task.documents.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    DocumentScore& document = documents[flat.documents[i]];
    const Score score = total(scores[i]);
    document.tokens += std::ssize(scores[i]);
    if (task.task.kind == TaskKind::Rolling && !document.requests.empty()) {
      document.requests[0].log_likelihood += score.log_likelihood;
      document.requests[0].is_greedy = document.requests[0].is_greedy && score.is_greedy;
    } else {
      document.requests.push_back(score);
    }
  }
  for (DocumentScore& document : documents) {
    if (document.requests.empty()) document.requests.emplace_back();  // a text without tokens
  }
  return documents;
}

MetricValue metric_of(const std::string& metric, const TaskResult& task,
                      const std::vector<DocumentScore>& scores, std::int64_t iterations) {
  std::vector<DocumentMetric> documents;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    documents.push_back(document_metric(metric, task.documents[i].item, scores[i]));
  }
  return aggregate(metric, documents, iterations);
}

// Adds one draw's value; the means are taken when all are there.
void add_draw(MetricResult& result, const MetricValue& value) {
  result.draws.push_back(value.value);
  const auto n = static_cast<double>(result.draws.size());
  result.value = mean(result.draws);
  if (value.error) {
    result.error = result.error.value_or(0) + (*value.error - result.error.value_or(0)) / n;
  }
}

// "acc_017_to_024" for gaps of that many words, "acc" for all.
void add_recall_draw(TaskResult& task, const RecallResult& recall) {
  std::size_t place = 0;
  const auto add = [&](const std::string& name, const MetricValue& value) {
    if (place == task.metrics.size()) task.metrics.push_back({.name = name});
    add_draw(task.metrics[place++], value);
  };
  const auto accuracy = [](const RecallBucket& bucket) {
    const double p = bucket.accuracy();
    MetricValue value{p, {}};
    if (bucket.spots > 1) value.error = std::sqrt(p * (1 - p) / double(bucket.spots - 1));
    return value;
  };
  add("token_perplexity", {std::exp(recall.loss), {}});
  add("acc", accuracy(recall.all));
  std::int64_t first = 1;
  for (const RecallBucket& bucket : recall.by_gap) {
    const bool last = &bucket == &recall.by_gap.back();
    const std::string range = last ? fmt::format("acc_{:03}_and_more", first)
                                   : fmt::format("acc_{:03}_to_{:03}", first, bucket.max_gap);
    if (bucket.spots > 0) add(range, accuracy(bucket));
    first = bucket.max_gap + 1;
  }
}

GroupResult combine(const TaskGroup& group, const std::vector<const TaskResult*>& members) {
  GroupResult result{.group = group};
  std::vector<std::int64_t> sizes;
  for (const TaskResult* member : members) {
    sizes.push_back(std::ssize(member->documents));
    result.documents += sizes.back();
  }
  for (const std::string& name : group.metrics) {
    MetricResult metric{.name = name};
    std::vector<double> errors;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const MetricResult& own : members[i]->metrics) {
        if (own.name != name) continue;
        const double share = static_cast<double>(sizes[i]) / static_cast<double>(result.documents);
        metric.draws.resize(own.draws.size());
        for (std::size_t draw = 0; draw < own.draws.size(); ++draw) {
          metric.draws[draw] += own.draws[draw] * share;
        }
        if (own.error) errors.push_back(*own.error);
      }
    }
    metric.value = mean(metric.draws);
    if (errors.size() == members.size() && result.documents > std::ssize(errors)) {
      metric.error = pooled_stderr(errors, sizes);
    }
    result.metrics.push_back(std::move(metric));
  }
  return result;
}

}  // namespace

std::string program_of(const EvaluatedDocument& document) {
  return document.requests.at(0).context + document.score.output + "\n" + document.item.target;
}

TaskResult prepare_task(const Task& task, const EvaluationOptions& options) {
  require(task.kind != TaskKind::Program || options.allow_programs, ErrorKind::Config,
          "task {} runs programs that the model writes, on this machine: --allow-code-execution "
          "permits it",
          task.name);
  TaskResult result;
  result.task = task;
  result.shots = options.shots;
  result.file = find_file(task, task.evaluated, options);
  result.file_hash = sha256(read_text_file(result.file));
  std::vector<Item> items = task.read(result.file);
  result.documents_in_file = std::ssize(items);
  items.resize(static_cast<std::size_t>(documents_wanted(std::ssize(items), options.limit)));
  std::vector<Item> pool;
  if (options.shots > 0 && task.few_shot != FewShot::None) {
    pool = task.read(find_file(task, task.examples, options));
  }
  auto prompts = make_prompts(task, items, pool, options.shots);
  for (std::size_t i = 0; i < items.size(); ++i) {
    result.documents.push_back({std::move(items[i]), std::move(prompts[i]), {}});
  }
  return result;
}

std::vector<std::vector<TokenRequest>> encode_task(const TaskResult& task,
                                                   const RequestEncoder& encoder,
                                                   std::int64_t stride) {
  std::vector<std::vector<TokenRequest>> encoded;
  for (const EvaluatedDocument& document : task.documents) {
    const std::size_t number = encoded.size();
    std::vector<TokenRequest>& requests = encoded.emplace_back();
    try {
      if (task.task.kind == TaskKind::Rolling) {
        requests = encoder.encode_rolling(document.requests[0].context, stride);
        continue;
      }
      for (const TextRequest& request : document.requests) {
        requests.push_back(encoder.encode(request));
      }
    } catch (const Error& error) {
      fail(error.kind(), "{}: document {}, choice {}: {}", task.task.name, number, requests.size(),
           error.what());
    }
  }
  return encoded;
}

void evaluate_recall_task(TaskResult& task, Transformer& model, Scorer& scorer,
                          const Tokenizer& tokenizer, const EvaluationOptions& options,
                          const EvaluationProgress& progress) {
  std::vector<RecallText> texts = read_recall_file(task.file);
  texts.resize(task.documents.size());
  std::vector<TokenizedRecall> tokenized;
  std::vector<TokenRequest> requests;
  for (const RecallText& text : texts) {
    tokenized.push_back(tokenize_recall(text, tokenizer));
    requests.push_back(tokenized.back().request);
    task.scored_tokens += std::ssize(requests.back().tokens) - 1;
  }
  task.mean_visible_keys = mean_visible_keys(model.config(), requests);
  for (std::int64_t draw = 0; draw < options.draws; ++draw) {
    const auto scores = scorer.score(requests, static_cast<std::uint32_t>(draw), progress);
    add_recall_draw(task, count_recall(texts, tokenized, scores));
    if (draw > 0) continue;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      task.documents[i].score = {.requests = {total(scores[i])}, .tokens = std::ssize(scores[i])};
    }
  }
  for (const MetricResult& metric : task.metrics) task.task.metrics.push_back(metric.name);
}

void evaluate_task(TaskResult& task, Transformer& model, Scorer& scorer,
                   const RequestEncoder& encoder, const EvaluationOptions& options,
                   const EvaluationProgress& progress) {
  if (task.task.kind == TaskKind::Recall) {
    evaluate_recall_task(task, model, scorer, encoder.tokenizer(), options, progress);
    return;
  }
  const std::int64_t window = encoder.options().max_length;
  const bool own_stride = task.task.name == "perplexity" && options.stride > 0;
  const FlatRequests flat =
      flatten(encode_task(task, encoder, own_stride ? options.stride : window));
  for (const TokenRequest& request : flat.requests) {
    task.cut_requests += request.cut > 0;
    task.scored_tokens += std::ssize(request.tokens) - request.first_scored;
  }
  task.mean_visible_keys = mean_visible_keys(model.config(), flat.requests);
  for (const std::string& metric : task.task.metrics) task.metrics.push_back({.name = metric});
  for (std::int64_t draw = 0; draw < options.draws; ++draw) {
    const auto scores =
        gather(task, flat, scorer.score(flat.requests, static_cast<std::uint32_t>(draw), progress));
    for (MetricResult& metric : task.metrics) {
      add_draw(metric, metric_of(metric.name, task, scores, options.bootstrap_iterations));
    }
    if (draw > 0) continue;
    for (std::size_t i = 0; i < scores.size(); ++i) task.documents[i].score = scores[i];
  }
}

std::vector<GroupResult> combine_groups(const TaskRegistry& registry,
                                        const std::vector<TaskResult>& tasks) {
  std::vector<Task> known;
  for (const TaskResult& task : tasks) known.push_back(task.task);
  std::vector<GroupResult> results;
  for (const TaskGroup& group : registry.groups_of(known)) {
    std::vector<const TaskResult*> members;
    for (const std::string& name : registry.members(group.name)) {
      for (const TaskResult& task : tasks) {
        if (task.task.name == name) members.push_back(&task);
      }
    }
    results.push_back(combine(group, members));
  }
  return results;
}

}  // namespace flywheel

#include "eval/report.h"

#include <fmt/format.h>

#include "eval/results_table.h"

namespace flywheel {

namespace {

// What a rolling score was divided by, and in which windows it was made.
std::string normalizers(const TaskResult& task, const EvaluationRecord& record) {
  std::int64_t words = 0;
  std::int64_t bytes = 0;
  for (const EvaluatedDocument& document : task.documents) {
    words += document.item.words;
    bytes += document.item.bytes;
  }
  const bool own_stride = task.task.name == "perplexity" && record.options.stride > 0;
  return fmt::format("{}: {} tokens, {} words, {} bytes; windows of {} tokens, {} of them new\n",
                     task.task.name, task.scored_tokens, words, bytes, record.max_length,
                     own_stride ? record.options.stride : record.max_length);
}

}  // namespace

std::string report(const EvaluationResults& results, const EvaluationRecord& record) {
  const auto& limit = record.options.limit;
  std::string text = fmt::format(
      "flywheel ({{'pretrained': '{}', 'attention': '{}', 'max_length': {}}}), gen_kwargs: (None), "
      "limit: {}, num_fewshot: {}, batch_size: {} tokens\n",
      record.model_name, record.attention_text, record.max_length,
      limit ? fmt::format("{}", *limit) : "None", record.options.shots, record.batch_tokens);
  text += results_tables(results);
  if (record.options.draws > 1) text += "\n" + draws_table(results);
  text += "\n";
  for (const TaskResult& task : results.tasks) {
    if (task.task.kind == TaskKind::Rolling) text += normalizers(task, record);
    text += fmt::format("{}: a query sees {:.1f} keys on average\n", task.task.name,
                        task.mean_visible_keys);
  }
  return text;
}

}  // namespace flywheel

#include "eval/report.h"

#include <fmt/format.h>

#include "eval/results_table.h"

namespace flywheel {

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
    text += fmt::format("{}: a query sees {:.1f} keys on average\n", task.task.name,
                        task.mean_visible_keys);
  }
  return text;
}

}  // namespace flywheel

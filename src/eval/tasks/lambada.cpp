#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// The last word is what follows the last space.
Item make(const Json& document) {
  const std::string text = text_of(document, "text");
  const auto [before, last] = python::split_last(text, ' ');
  const std::string target = " " + std::string(last);
  return {.document = dump(document),
          .queries = {std::string(before)},
          .choices = {target},
          .target = target};
}

std::vector<Item> read_plain(const std::filesystem::path& path) {
  std::vector<Item> items;
  for (const std::string& line : lines_of(read_utf8_file(path))) {
    items.push_back(make(Json{{"text", line}}));
  }
  return items;
}

Task common() {
  return {.version = "1.0",
          .kind = TaskKind::Cloze,
          .metrics = {"perplexity", "acc"},
          .split = "test",
          .delimiter = "",
          .evaluated = {},
          .examples = {},
          .few_shot = FewShot::Drawn,
          .read = {}};
}

}  // namespace

Task lambada_openai_task() {
  Task task = common();
  task.name = task.alias = "lambada_openai";
  task.dataset = "EleutherAI/lambada_openai (default)";
  task.evaluated = {
      .names = {"lambada/lambada_test.jsonl", "lambada/lambada_test.even.jsonl"},
      .source = "lambada_test.jsonl, OpenAI's copy of LAMBADA (one {\"text\": ...} a line)"};
  task.examples = task.evaluated;
  task.read = [](const std::filesystem::path& path) { return read_json_items(path, make); };
  return task;
}

Task lambada_standard_task() {
  Task task = common();
  task.name = task.alias = "lambada_standard";
  task.dataset = "cimec/lambada";
  const std::string source = " of the release by its authors (zenodo.org/records/2630551)";
  task.evaluated = {
      .names = {"lambada/lambada_test_plain_text.txt", "lambada/lambada_test_plain_text.even.txt"},
      .source = "lambada_test_plain_text.txt" + source};
  task.examples = {.names = {"lambada/lambada_development_plain_text.txt",
                             "lambada/lambada_development_plain_text.even.txt"},
                   .source = "lambada_development_plain_text.txt" + source};
  task.read = read_plain;
  return task;
}

}  // namespace flywheel

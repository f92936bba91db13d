#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

std::vector<Item> read(const std::filesystem::path& path) {
  return read_json_items(path, [](const Json& document) {
    return Item{
        .document = dump(document),
        .queries = {text_of(document, "prompt")},
        .choices = {},
        .target = text_of(document, "test") + "\ncheck(" + text_of(document, "entry_point") + ")"};
  });
}

}  // namespace

Task humaneval_task() {
  return {.name = "humaneval",
          .alias = "humaneval",
          .version = "1.0",
          .kind = TaskKind::Program,
          .metrics = {"pass@1"},
          .dataset = "openai/openai_humaneval",
          .split = "test",
          .filter = "create_test",
          .writing = {.until = {"\nclass", "\ndef", "\n#", "\nif", "\nprint"}, .max_tokens = 1024},
          .evaluated = {.names = {"humaneval/HumanEval.jsonl"},
                        .source = "HumanEval.jsonl.gz of github.com/openai/human-eval, unpacked"},
          .examples = {},
          .read = read};
}

}  // namespace flywheel

#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// The right answer comes last.
Item make(const Json& document) {
  const std::string support = text_of(document, "support");
  Item item{.document = dump(document),
            .queries = {std::string(python::lstrip(support)) +
                        "\nQuestion: " + text_of(document, "question") + "\nAnswer:"},
            .choices = {},
            .gold = 3,
            .target = "3"};
  for (const char* field : {"distractor1", "distractor2", "distractor3", "correct_answer"}) {
    item.choices.push_back(text_of(document, field));
  }
  return item;
}

}  // namespace

Task sciq_task() {
  const std::string source = " of SciQ by Welbl et al. 2017 (allenai.org/data/sciq)";
  return {.name = "sciq",
          .alias = "sciq",
          .version = "1.0",
          .metrics = {"acc", "acc_norm"},
          .dataset = "allenai/sciq",
          .split = "test",
          .evaluated = {.names = {"sciq/test.json"}, .source = "test.json" + source},
          .examples = {.names = {"sciq/train.json"}, .source = "train.json" + source},
          .few_shot = FewShot::Drawn,
          .read = [](const std::filesystem::path& path) { return read_json_items(path, make); }};
}

}  // namespace flywheel

#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// Text from a "[" to the next "]" of the same line goes; then two spaces become one, in one pass.
std::string clean(std::string_view raw) {
  const std::string text = python::replace(python::strip(raw), " [title]", ". ");
  std::string kept;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t close = text[i] == '[' ? text.find_first_of("]\n", i) : std::string::npos;
    if (close != std::string::npos && text[close] == ']') {
      i = close + 1;
    } else {
      kept += text[i++];
    }
  }
  return python::replace(kept, "  ", " ");
}

// Copies without the parts of the original context have it whole.
std::string context_of(const Json& document) {
  if (document.find("ctx_a") == document.end()) return text_of(document, "ctx") + " ";
  return text_of(document, "ctx_a") + " " + python::capitalize(text_of(document, "ctx_b"));
}

Item make(const Json& document) {
  const Json& raw_label = document.at("label");
  const std::string label = raw_label.is_string() ? raw_label.get<std::string>() : raw_label.dump();
  Item item{.document = "",
            .queries = {clean(text_of(document, "activity_label") + ": " + context_of(document))},
            .choices = {},
            .gold = place_of(label, {"0", "1", "2", "3"}),
            .target = label};
  for (const auto& ending : document.at("endings").get<std::vector<std::string>>()) {
    item.choices.push_back(clean(ending));
  }
  Json whole = document;
  whole["label"] = label;
  whole["query"] = item.queries[0];
  whole["choices"] = item.choices;
  whole["gold"] = item.gold;
  item.document = dump(whole);
  return item;
}

}  // namespace

Task hellaswag_task() {
  const std::string source = " of HellaSwag by Zellers et al. 2019 (rowanzellers.com/hellaswag)";
  return {.name = "hellaswag",
          .alias = "hellaswag",
          .version = "1.0",
          .metrics = {"acc", "acc_norm"},
          .dataset = "Rowan/hellaswag",
          .split = "validation",
          .evaluated = {.names = {"hellaswag/hellaswag_val.jsonl",
                                  "hellaswag/hellaswag_val.even.jsonl"},
                        .source = "hellaswag_val.jsonl" + source},
          .examples = {.names = {"hellaswag/hellaswag_train.jsonl"},
                       .source = "hellaswag_train.jsonl" + source},
          .few_shot = FewShot::DrawnOff,
          .read = [](const std::filesystem::path& path) { return read_json_items(path, make); }};
}

}  // namespace flywheel

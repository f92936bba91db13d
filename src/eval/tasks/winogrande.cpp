#include "core/error.h"
#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// Each option stands in the blank; what is scored is the rest of the sentence.
Item make(const Json& document) {
  const std::string sentence = text_of(document, "sentence");
  const std::size_t blank = sentence.find('_');
  require(blank != std::string::npos, ErrorKind::Data, "the sentence has no blank");
  const std::string before = sentence.substr(0, blank);
  const std::string rest(python::strip(std::string_view(sentence).substr(blank + 1)));
  return {.document = dump(document),
          .queries = {before + text_of(document, "option1"), before + text_of(document, "option2")},
          .choices = {rest},
          .gold = place_of(text_of(document, "answer"), {"1", "2"}),
          .target = rest};
}

}  // namespace

Task winogrande_task() {
  const std::string source =
      " of winogrande_1.1.zip by Sakaguchi et al. 2019 (winogrande.allenai.org)";
  return {.name = "winogrande",
          .alias = "winogrande",
          .version = "1.0",
          .metrics = {"acc"},
          .dataset = "allenai/winogrande (winogrande_xl)",
          .split = "validation",
          .evaluated = {.names = {"winogrande/dev.jsonl", "winogrande/dev.even.jsonl"},
                        .source = "dev.jsonl" + source},
          .examples = {.names = {"winogrande/train_xl.jsonl"}, .source = "train_xl.jsonl" + source},
          .few_shot = FewShot::DrawnOff,
          .read = [](const std::filesystem::path& path) { return read_json_items(path, make); }};
}

}  // namespace flywheel

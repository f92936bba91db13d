#include "core/error.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// "valid.even.jsonl" -> "valid-labels.even.lst"
std::filesystem::path labels_beside(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t point = name.find('.');
  return path.parent_path() /
         std::filesystem::path(name.substr(0, point) + "-labels" + name.substr(point))
             .replace_extension(".lst");
}

std::vector<Item> read(const std::filesystem::path& path) {
  const std::filesystem::path labels_path = labels_beside(path);
  const std::vector<std::string> labels = lines_of(read_utf8_file(labels_path));
  std::size_t number = 0;
  std::vector<Item> items = read_json_items(path, [&](const Json& document) {
    require(number < labels.size(), ErrorKind::Data, "{} has only {} labels", labels_path.string(),
            labels.size());
    const std::string& label = labels[number++];
    Json whole{{"goal", document.at("goal")},
               {"sol1", document.at("sol1")},
               {"sol2", document.at("sol2")},
               {"label", place_of(label, {"0", "1"})}};
    return Item{.document = dump(whole),
                .queries = {"Question: " + text_of(document, "goal") + "\nAnswer:"},
                .choices = {text_of(document, "sol1"), text_of(document, "sol2")},
                .gold = place_of(label, {"0", "1"}),
                .target = label};
  });
  return items;
}

}  // namespace

Task piqa_task() {
  const std::string source = "PIQA by Bisk et al. 2019 (yonatanbisk.com/piqa)";
  return {.name = "piqa",
          .alias = "piqa",
          .version = "1.0",
          .metrics = {"acc", "acc_norm"},
          .dataset = "baber/piqa",
          .split = "validation",
          .evaluated = {.names = {"piqa/valid.jsonl", "piqa/valid.even.jsonl"},
                        .source = "valid.jsonl and valid-labels.lst of " + source},
          .examples = {.names = {"piqa/train.jsonl"},
                       .source = "train.jsonl and train-labels.lst of " + source},
          .few_shot = FewShot::DrawnOff,
          .read = read};
}

}  // namespace flywheel

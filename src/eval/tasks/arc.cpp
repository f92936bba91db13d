#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

struct Choices {
  std::vector<std::string> texts, labels;
};

// {"text": [...], "label": [...]}, or the original [{"text": "...", "label": "..."}, ...].
Choices choices_of(const Json& json) {
  if (json.is_object()) {
    return {json.at("text").get<std::vector<std::string>>(),
            json.at("label").get<std::vector<std::string>>()};
  }
  Choices choices;
  for (const Json& choice : json) {
    choices.texts.push_back(text_of(choice, "text"));
    choices.labels.push_back(text_of(choice, "label"));
  }
  return choices;
}

// AI2's files have {"question": {"stem": ..., "choices": ...}}, copies of them are flat; the sample
// files call the question `field`.
Item make(const Json& document, const char* field, const std::string& before,
          const std::string& after) {
  const Json& question = document.at(document.find(field) == document.end() ? "question" : field);
  const bool nested = question.is_object();
  const Choices choices = choices_of((nested ? question : document).at("choices"));
  const std::string text = nested ? text_of(question, "stem") : question.get<std::string>();
  const std::string answer(python::lstrip(text_of(document, "answerKey")));
  const Json whole{{"id", document.value("id", "")},
                   {field, text},
                   {"choices", {{"text", choices.texts}, {"label", choices.labels}}},
                   {"answerKey", document.at("answerKey")}};
  const std::int64_t gold = place_of(answer, choices.labels);
  return {.document = dump(whole),
          .queries = {before + text + after},
          .choices = choices.texts,
          .gold = gold,
          .target = std::to_string(gold)};
}

Task arc_task(const std::string& name, const std::string& part) {
  const auto file = [&](const std::string& split) {
    return DataFile{
        .names = {"arc/" + part + "-" + split + ".jsonl",
                  "arc/" + part + "-" + split + ".even.jsonl"},
        .source = part + "-" + split + ".jsonl of ARC-V1-Feb2018 (allenai.org/data/arc)"};
  };
  return {.name = name,
          .alias = name,
          .version = "1.0",
          .metrics = {"acc", "acc_norm"},
          .dataset = "allenai/ai2_arc (" + part + ")",
          .split = "test",
          .evaluated = file("Test"),
          .examples = file("Train"),
          .few_shot = FewShot::Drawn,
          .read = [](const std::filesystem::path& path) {
            return read_json_items(path, [](const Json& document) {
              return make(document, "question", "Question: ", "\nAnswer:");
            });
          }};
}

}  // namespace

Task arc_easy_task() {
  return arc_task("arc_easy", "ARC-Easy");
}

Task arc_challenge_task() {
  return arc_task("arc_challenge", "ARC-Challenge");
}

Task openbookqa_task() {
  const std::string source = " of OpenBookQA-V1-Sep2018, Data/Main (allenai.org/data/open-book-qa)";
  return {.name = "openbookqa",
          .alias = "openbookqa",
          .version = "1.0",
          .metrics = {"acc", "acc_norm"},
          .dataset = "allenai/openbookqa (main)",
          .split = "test",
          .evaluated = {.names = {"openbookqa/test.jsonl"}, .source = "test.jsonl" + source},
          .examples = {.names = {"openbookqa/train.jsonl"}, .source = "train.jsonl" + source},
          .few_shot = FewShot::Drawn,
          .read = [](const std::filesystem::path& path) {
            return read_json_items(
                path, [](const Json& document) { return make(document, "question_stem", "", ""); });
          }};
}

}  // namespace flywheel

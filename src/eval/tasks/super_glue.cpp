#include "core/error.h"
#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

// The original release has title and answer where SuperGLUE joined the title to the passage.
Json boolq_document(const Json& document) {
  const bool original = document.find("answer") != document.end();
  const std::string passage = text_of(document, "passage");
  return {{"question", document.at("question")},
          {"passage", original ? text_of(document, "title") + " -- " + passage : passage},
          {"idx", document.value("idx", 0)},
          {"label", document.at(original ? "answer" : "label").get<bool>() ? 1 : 0}};
}

Item make_boolq(const Json& raw) {
  const Json document = boolq_document(raw);
  const auto gold = document.at("label").get<std::int64_t>();
  return {.document = dump(document),
          .queries = {text_of(document, "passage") +
                      "\nQuestion: " + text_of(document, "question") + "?\nAnswer:"},
          .choices = {"no", "yes"},
          .gold = gold,
          .target = std::to_string(gold)};
}

// The premise without its full stop goes on with a connector.
Item make_copa(const Json& document) {
  const std::string question = text_of(document, "question");
  require(question == "cause" || question == "effect", ErrorKind::Data,
          "the question is \"{}\"; expected cause or effect", question);
  std::string premise(python::strip(text_of(document, "premise")));
  require(!premise.empty(), ErrorKind::Data, "the premise is empty");
  do {
    premise.pop_back();
  } while (!premise.empty() && (static_cast<unsigned char>(premise.back()) & 0xC0) == 0x80);
  Item item{.document = dump(document),
            .queries = {premise + (question == "cause" ? " because" : " therefore")},
            .choices = {},
            .gold = document.at("label").get<std::int64_t>(),
            .target = ""};
  for (const char* field : {"choice1", "choice2"}) {
    item.choices.push_back(" " + python::lower_first(text_of(document, field)));
  }
  item.target = item.choices.at(static_cast<std::size_t>(item.gold));
  return item;
}

Task super_glue_task(const std::string& name, const std::string& version, const std::string& folder,
                     Item (*make)(const Json&)) {
  const std::string source =
      " of " + folder + ".zip of SuperGLUE by Wang et al. 2019 (super.gluebenchmark.com)";
  return {
      .name = name,
      .alias = name,
      .version = version,
      .metrics = {"acc"},
      .dataset = "aps/super_glue (" + name + ")",
      .split = "validation",
      .evaluated = {.names = {name + "/val.jsonl", folder + "/val.jsonl"},
                    .source = "val.jsonl" + source},
      .examples = {.names = {name + "/train.jsonl", folder + "/train.jsonl"},
                   .source = "train.jsonl" + source},
      .few_shot = FewShot::DrawnOff,
      .read = [make](const std::filesystem::path& path) { return read_json_items(path, make); }};
}

}  // namespace

Task boolq_task() {
  Task task = super_glue_task("boolq", "2.0", "BoolQ", make_boolq);
  task.evaluated.names.push_back("boolq/dev.jsonl");
  return task;
}

Task copa_task() {
  return super_glue_task("copa", "1.0", "COPA", make_copa);
}

}  // namespace flywheel

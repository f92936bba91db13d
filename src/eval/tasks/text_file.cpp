#include "core/error.h"
#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {

// Any text as one document.
Task perplexity_task() {
  return {.name = "perplexity",
          .alias = "perplexity",
          .version = "1.0",
          .kind = TaskKind::Rolling,
          .metrics = {"token_perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"},
          .evaluated = {},
          .examples = {},
          .read = [](const std::filesystem::path& path) {
            const std::string text = read_utf8_file(path);
            require(!text.empty(), ErrorKind::Data, "{}: no text in it", path.string());
            return std::vector<Item>{{.document = dump(Json{{"file", path.filename().string()}}),
                                      .queries = {},
                                      .choices = {text},
                                      .target = path.filename().string(),
                                      .words = python::count_words(text),
                                      .bytes = std::ssize(text)}};
          }};
}

// The demo's texts: a document is a line of its file (eval/recall.h).
Task recall_task() {
  return {.name = "recall",
          .alias = "recall",
          .version = "1.0",
          .kind = TaskKind::Recall,
          .evaluated = {},
          .examples = {},
          .read = [](const std::filesystem::path& path) {
            return read_json_items(path, [](const Json& document) {
              return Item{.document = dump(document),
                          .queries = {},
                          .choices = {text_of(document, "text")}};
            });
          }};
}

}  // namespace flywheel

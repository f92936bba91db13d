#include "infer/prompts.h"

#include <fstream>

#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"
#include "support/text.h"

namespace flywheel {
namespace {

using Texts = std::vector<std::string>;

struct File {
  test::TemporaryFolder folder;
  std::filesystem::path path;
  File(const std::string& name, const std::string& content) : path(folder.path() / name) {
    std::ofstream(path, std::ios::binary) << content;
  }
};

TEST_CASE("a text file has a prompt a line") {
  CHECK(read_prompts(File("p.txt", "one\n\n  two \r\n\t\nthree").path) ==
        Texts{"one", "  two ", "three"});
}

TEST_CASE("a JSONL file has a prompt an object") {
  const File file("p.jsonl", "{\"prompt\": \"a\\nb\", \"id\": 3}\n\n{\"prompt\": \"\"}\n");
  CHECK(read_prompts(file.path) == Texts{"a\nb", ""});
}

TEST_CASE("faults name file and line") {
  const auto fault = [](const std::string& name, const std::string& content,
                        const std::string& what) {
    const File file(name, content);
    test::require_contains(test::error_of([&] { read_prompts(file.path); }), what);
  };
  fault("p.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n",
        "p.jsonl:2: expected an object with a string \"prompt\"");
  fault("p.jsonl", "{\"prompt\": 3}", "p.jsonl:1: expected an object");
  fault("p.jsonl", "{\"prompt\"", "p.jsonl:1");
  fault("p.txt", "good\n\xFF\n", "p.txt:2: not UTF-8");
  fault("p.txt", "\n \n", "p.txt: no prompts in it");
}

}  // namespace
}  // namespace flywheel

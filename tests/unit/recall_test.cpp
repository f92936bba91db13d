#include "eval/recall.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "support/catch.h"
#include "support/test_data.h"

namespace flywheel {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

TEST_CASE("covering_tokens finds the tokens that hold a word") {
  const std::vector<std::int64_t> lengths = {4, 5, 1, 2, 3};  // bytes 0-3, 4-8, 9, 10-11, 12-14
  CHECK(covering_tokens(lengths, {.begin = 0, .end = 4}) == Range{0, 1});
  CHECK(covering_tokens(lengths, {.begin = 5, .end = 9}) == Range{1, 2});  // the space before it
  CHECK(covering_tokens(lengths, {.begin = 9, .end = 12}) == Range{2, 4});
  CHECK(covering_tokens(lengths, {.begin = 12, .end = 15}) == Range{4, 5});
}

std::string fault_of(const std::string& content) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "recall.jsonl";
  write_file_atomically(path, content);
  try {
    read_recall_file(path);
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Data);
    return error.what();
  }
  return "";
}

TEST_CASE("a recall file is read; a damaged one is refused by line") {
  const std::string good = R"({"text":"Mia. Then Mia","recalls":[{"begin":10,"end":13,"gap":3}]})";
  CHECK(fault_of(good + "\n" + good + "\n").empty());
  CHECK(fault_of("").find("no texts") != std::string::npos);
  CHECK(fault_of(good + "\n" + good.substr(0, 30)).find("line 2") != std::string::npos);
  CHECK(fault_of(R"({"text":"Mia","recalls":[{"begin":1,"end":9,"gap":3}]})").find("line 1") !=
        std::string::npos);
}

}  // namespace
}  // namespace flywheel

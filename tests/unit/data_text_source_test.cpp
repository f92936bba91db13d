#include "data/text_source.h"

#include <random>

#include "core/file_io.h"
#include "data/input_files.h"
#include "data/safe_cut.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/fake_tokenizer.h"
#include "support/test_data.h"

using namespace flywheel;
using test::contains;
using test::error_of;

namespace {

namespace fs = std::filesystem;

using Documents = std::vector<std::string>;

// The documents of files, put together again from their pieces.
Documents read_documents(const std::vector<fs::path>& files, const std::string& separator,
                         const std::string& key = "text") {
  TextSource source(files, separator);
  Documents documents;
  TextChunk chunk;
  while (source.next(chunk)) {
    parse_json_lines(chunk, key);
    for (const TextPiece& piece : chunk.pieces) {
      REQUIRE_FALSE(piece.text.empty());
      if (piece.begins_document) documents.emplace_back();
      documents.at(documents.size() - 1) += piece.text;
    }
  }
  return documents;
}

struct Files {
  test::TemporaryFolder folder;
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder.path() / name).parent_path());
    write_file_atomically(folder.path() / name, text);
    return folder.path() / name;
  }
};

}  // namespace

TEST_CASE("each text file is a document", "[data]") {
  const Files files;
  const auto a = files.write("a.txt", "one\n\ntwo\n");
  const auto b = files.write("b.txt", "");
  const auto c = files.write("c.txt", "\xEF\xBB\xBFthree");
  REQUIRE(read_documents({a, b, c}, "") == Documents{"one\n\ntwo\n", "three"});
}

TEST_CASE("text files are cut into documents at blank lines or a separator line", "[data]") {
  const Files files;
  const auto a = files.write("a.txt", "\n\none\nmore\n \t\n\n\r\ntwo\r\nx\n\n");
  REQUIRE(read_documents({a, a}, "blank") ==
          Documents{"one\nmore", "two\r\nx", "one\nmore", "two\r\nx"});
  const auto b = files.write("b.txt", "<end>\none\n\nmore\n<end>\r\n<end>\n <end>\ntwo");
  REQUIRE(read_documents({b}, "<end>") == Documents{"one\n\nmore", " <end>\ntwo"});
}

TEST_CASE("a line of JSONL is a document", "[data]") {
  const Files files;
  const auto a = files.write(
      "a.jsonl",
      "{\"text\": \"one\\n\\u00e9\", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"text\": \"two\"}");
  REQUIRE(read_documents({a}, "") == Documents{"one\n\xC3\xA9", "two"});
  const auto b = files.write("b.jsonl", "{\"content\": \"x\"}\n");
  REQUIRE(read_documents({b}, "", "content") == Documents{"x"});
}

TEST_CASE("faulty JSONL is refused with file and line", "[data]") {
  const Files files;
  const auto fault = [&](const std::string& line) {
    const auto path = files.write("bad.jsonl", "{\"text\": \"good\"}\n" + line + "\n");
    const std::string message = error_of([&] { read_documents({path}, ""); });
    REQUIRE(contains(message, "data: " + path.string() + ":2: "));
    REQUIRE_FALSE(contains(message, "\n"));
    return message;
  };
  REQUIRE(contains(fault("{\"text\": \"cut"), "malformed JSON: parse error"));
  REQUIRE(contains(fault("{\"text\": \"\xFF\"}"), "malformed JSON"));
  REQUIRE(contains(fault("{\"id\": 1, \"body\": \"x\"}"), "no key \"text\" (there are: body, id)"));
  REQUIRE(contains(fault("{\"text\": 5}"), "the value of \"text\" is a JSON number, not a string"));
  REQUIRE(contains(fault("[1]"), "expected a JSON object, but this is a JSON array"));
}

TEST_CASE("UTF-16 is refused", "[data]") {
  const Files files;
  const auto a = files.write("a.txt", std::string("\xFF\xFEh\0i\0", 6));
  REQUIRE(contains(error_of([&] { read_documents({a}, ""); }), "UTF-16 text; convert it"));
}

TEST_CASE("long documents come in pieces that give the same ids", "[data]") {
  const Files files;
  const test::FakeTokenizer tokenizer;
  std::mt19937 random(7);
  static const std::string kParts[] = {"word",         "a", "  ", " ", "\n",  "\n\n",
                                       "\r\n",         "7", "12", ".", ",\"", "\xE4\xBD\xA0",
                                       "\xE3\x80\x80", "\t"};
  std::string text;
  while (text.size() < (std::size_t{3} << 20)) text += kParts[random() % std::size(kParts)];
  std::vector<std::int32_t> whole;
  tokenizer.encode(text, whole);

  for (const std::string separator : {"", "a line that is not there"}) {
    TextSource source({files.write("long.txt", text + "x")}, separator);
    std::vector<std::int32_t> ids;
    std::string joined;
    TextChunk chunk;
    int pieces = 0;
    while (source.next(chunk)) {
      for (const TextPiece& piece : chunk.pieces) {
        REQUIRE(piece.begins_document == (pieces++ == 0));
        REQUIRE(piece.text.size() <= (std::size_t{3} << 20));
        joined += piece.text;
        tokenizer.encode(piece.text, ids);
      }
    }
    REQUIRE(pieces >= 2);
    REQUIRE((joined == text + "x"));
    whole.clear();
    tokenizer.encode(joined, whole);
    REQUIRE((ids == whole));
  }
}

TEST_CASE("text without a safe place to cut is cut between characters in the end", "[data]") {
  const Files files;
  std::string text;
  while (text.size() < (std::size_t{18} << 20)) text += "\xE4\xBD\xA0\xE5\xA5\xBD";
  TextSource source({files.write("long.txt", text)}, "");
  TextChunk chunk;
  std::string joined;
  int pieces = 0;
  for (; source.next(chunk); ++pieces) {
    for (const TextPiece& piece : chunk.pieces) {
      REQUIRE(piece.text.size() % 3 == 0);
      joined += piece.text;
    }
  }
  REQUIRE(pieces == 2);
  REQUIRE((joined == text));
}

TEST_CASE("safe cuts", "[data]") {
  REQUIRE(find_safe_cut("ab cd", 0) == 2);
  REQUIRE(find_safe_cut("ab cd", 2) == 0);
  REQUIRE(find_safe_cut("ab, cd", 0) == 0);
  REQUIRE(find_safe_cut("1 2 3", 0) == 0);
  REQUIRE(find_safe_cut("x.\ny", 0) == 3);
  REQUIRE(find_safe_cut("x.\n\ny", 0) == 0);
  REQUIRE(find_safe_cut("x. \ny", 0) == 0);
  REQUIRE(find_safe_cut("x.\n/", 0) == 0);
  REQUIRE(find_safe_cut("x.\n y", 0) == 0);
  REQUIRE(find_safe_cut("\xE3\x80\x82\n\xE4\xBD\xA0", 0) == 4);
  REQUIRE(find_safe_cut("\xE3\x80\x80\n\xE4\xBD\xA0", 0) == 0);
  REQUIRE(find_safe_cut("\xE3\x80\x82\n\xE3\x80\x80y", 0) == 0);
  REQUIRE(find_safe_cut("x\xC2\xA0\ny", 0) == 0);
  REQUIRE(find_safe_cut("", 0) == 0);
}

TEST_CASE("inputs are files, folders and patterns in a fixed order, none twice", "[data]") {
  const Files files;
  for (const char* name : {"b/z.txt", "b/a/m.md", "b/skip.bin", "a2.jsonl", "a1.jsonl", "odd"}) {
    files.write(name, "x");
  }
  const fs::path& root = files.folder.path();
  const auto listed = list_text_files({(root / "odd").string(), (root / "a*.jsonl").string(),
                                       (root / "b").string(), (root / "a1.jsonl").string()});
  REQUIRE(listed == std::vector<fs::path>{root / "odd", root / "a1.jsonl", root / "a2.jsonl",
                                          root / "b/a/m.md", root / "b/z.txt"});
  fs::create_directory(root / "empty");
  REQUIRE(contains(error_of([&] { list_text_files({(root / "empty").string()}); }), "no .txt"));
  REQUIRE(contains(error_of([&] { list_text_files({(root / "none").string()}); }), "no such file"));
}

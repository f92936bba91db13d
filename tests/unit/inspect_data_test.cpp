#include "core/checksum.h"
#include "core/safetensors.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/inspection.h"
#include "support/test_data.h"
#include "support/text.h"
#include "support/token_files.h"
#include "train/inspect.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::damage_byte;
using test::error_of;
using test::fact;
using test::joined_faults;
using test::require_contains;
using Integer = std::int64_t;

constexpr std::int64_t kHeaderBytes = 128;

Inspection inspect_one(const fs::path& path, const InspectOptions& options = {}) {
  auto all = inspect(path.string(), options);
  REQUIRE(all.size() == 1);
  return std::move(all[0]);
}

// Two documents of 3 and 4 tokens, without the boundaries.
fs::path small_shard(const test::TemporaryFolder& folder, std::uint64_t fingerprint = 7) {
  const fs::path path = folder.path() / "a.bin";
  test::write_shard(path, {{5, 9, 2}, {1, 300, 4, 8}}, 301, 2, fingerprint);
  return path;
}

TEST_CASE("a token file of ours is described") {
  const test::TemporaryFolder folder;
  const Inspection seen = inspect_one(small_shard(folder));
  CHECK(joined_faults(seen).empty());
  CHECK(seen.kind == "token file");
  CHECK(fact(seen, "format") == InspectedValue("flywheel"));
  CHECK(fact(seen, "version") == InspectedValue(Integer{1}));
  CHECK(fact(seen, "tokens") == InspectedValue(Integer{9}));
  CHECK(fact(seen, "bytes_a_token") == InspectedValue(Integer{2}));
  CHECK(fact(seen, "vocab_size") == InspectedValue(Integer{301}));
  CHECK(fact(seen, "documents") == InspectedValue(Integer{2}));
  CHECK(fact(seen, "mean_document_tokens") == InspectedValue(4.5));
  CHECK(fact(seen, "largest_token") == InspectedValue(Integer{300}));
  CHECK(fact(seen, "end_of_document") == InspectedValue(Integer{0}));
  CHECK(fact(seen, "tokenizer_fingerprint") == InspectedValue(checksum_text(7)));
}

TEST_CASE("a damaged token is found, and the header still described") {
  const test::TemporaryFolder folder;
  const fs::path path = small_shard(folder);
  damage_byte(path, kHeaderBytes + 2 * 1);  // 5 becomes 250, which the vocabulary has
  const Inspection seen = inspect_one(path);
  REQUIRE(seen.faults.size() == 1);
  require_contains(seen.faults[0], path.string() + ": damaged");
  CHECK(fact(seen, "tokens") == InspectedValue(Integer{9}));
  CHECK(fact(seen, "checksum") == InspectedValue("no such fact"));

  damage_byte(path, kHeaderBytes + 3);  // beyond the vocabulary
  const Inspection worse = inspect_one(path);
  REQUIRE(worse.faults.size() == 2);
  require_contains(worse.faults[0], "the vocabulary ends at 300");
  CHECK(fact(worse, "documents") == InspectedValue(Integer{2}));
}

TEST_CASE("a token file that cannot be opened has a fault") {
  const test::TemporaryFolder folder;
  const fs::path path = small_shard(folder);
  fs::resize_file(path, fs::file_size(path) - 1);
  require_contains(joined_faults(inspect_one(path)), "truncated");
  fs::resize_file(path, 0);
  require_contains(joined_faults(inspect_one(path)), path.string());
}

TEST_CASE("token files of llm.c are described by their content") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "fineweb.bin";
  test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {50256, 3, 4, 50256, 5, 6});
  const Inspection seen = inspect_one(path);
  CHECK(seen.whole());
  CHECK(fact(seen, "format") == InspectedValue("llm.c"));
  CHECK(fact(seen, "version") == InspectedValue(Integer{1}));
  CHECK(fact(seen, "documents") == InspectedValue(Integer{2}));
  CHECK(fact(seen, "mean_document_tokens") == InspectedValue(3.0));
  CHECK(fact(seen, "largest_token") == InspectedValue(Integer{50256}));
  CHECK(fact(seen, "checksum") == InspectedValue("none"));

  const auto byte = Tokenizer::load("byte");
  const Inspection compared = inspect_one(path, {.tokenizer = byte.get()});
  CHECK(fact(compared, "tokenizer_matches") == InspectedValue("unknown"));
  CHECK(joined_faults(compared) ==
        path.string() + ": holds token 50256, but the ids of --tokenizer end at 256\n");

  const fs::path wide = folder.path() / "llama.bin";
  test::write_foreign_shard<std::uint32_t>(wide, 20240801, 7, {128000, 100000});
  const Inspection seen_wide = inspect_one(wide);
  CHECK(fact(seen_wide, "version") == InspectedValue(Integer{7}));
  CHECK(fact(seen_wide, "bytes_a_token") == InspectedValue(Integer{4}));
}

TEST_CASE("the first tokens are decoded, and the tokenizer compared") {
  const auto byte = Tokenizer::load("byte");
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "a.bin";
  ShardInfo info;
  info.vocab_size = 257;
  info.tokenizer_fingerprint = byte->fingerprint();
  info.end_of_document = 256;
  ShardWriter writer(path, info);
  writer.add_document(std::vector<std::int32_t>{'H', 'i', '\n', 0xC3, 0xA9, 0xC3});
  writer.close();
  const Inspection seen = inspect_one(path, {.tokenizer = byte.get(), .show = 100});
  CHECK(seen.whole());
  CHECK(fact(seen, "tokenizer_matches") == InspectedValue(true));
  CHECK(fact(seen, "first_tokens") == InspectedValue("256 72 105 10 195 169 195"));
  CHECK(fact(seen, "first_text") == InspectedValue("<|endoftext|>Hi\\n\u00e9\\xc3"));
  CHECK(fact(inspect_one(path, {.show = 2}), "first_tokens") == InspectedValue("256 72"));

  const Inspection other = inspect_one(small_shard(folder, 7), {.tokenizer = byte.get()});
  CHECK(fact(other, "tokenizer_matches") == InspectedValue(false));
  require_contains(joined_faults(other), "made with another tokenizer");
}

TEST_CASE("a folder of token files gives one inspection each") {
  const test::TemporaryFolder folder;
  test::write_shard(folder.path() / "b.bin", {{1}});
  test::write_shard(folder.path() / "a.bin", {{1}});
  const auto all = inspect(folder.path().string(), {});
  REQUIRE(all.size() == 2);
  CHECK(all[0].path == (folder.path() / "a.bin").string());
}

TEST_CASE("a safetensors file is described") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "weights.safetensors";
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  SafetensorsWriter writer(path, {{"w", "F32", {2, 3}}, {"empty", "I64", {0}}});
  writer.write("w", std::as_bytes(std::span(values)));
  writer.close();
  const Inspection seen = inspect_one(path);
  CHECK(seen.whole());
  CHECK(fact(seen, "tensor_count") == InspectedValue(Integer{2}));
  CHECK(fact(seen, "elements") == InspectedValue(Integer{6}));
  CHECK(fact(seen, "bytes") == InspectedValue(Integer{24}));
  require_contains(to_text(seen), "w      F32    [2, 3]     24");
  require_contains(to_text(seen), "format  pt");

  fs::resize_file(path, fs::file_size(path) - 1);
  require_contains(joined_faults(inspect_one(path)), path.string());
}

TEST_CASE("a tokenizer is described, and shows the tokens of a text") {
  const fs::path path = test::golden("tokenizers/gpt2_style/tokenizer.json");
  const Inspection seen = inspect_one(path, {.text = " the and<|endoftext|>"});
  CHECK(joined_faults(seen).empty());
  CHECK(fact(seen, "merges") == InspectedValue(Integer{443}));
  CHECK(fact(seen, "vocab_size") == InspectedValue(Integer{700}));
  CHECK(fact(seen, "end_of_document") == InspectedValue(Integer{0}));
  const std::string fingerprint =
      checksum_text(Tokenizer::load(path.parent_path().string())->fingerprint());
  CHECK(fact(seen, "fingerprint") == InspectedValue(fingerprint));
  CHECK(fact(inspect_one(path.parent_path()), "fingerprint") == InspectedValue(fingerprint));
  REQUIRE(seen.tables.size() == 2);
  CHECK(seen.tables[0].rows ==
        std::vector<std::vector<InspectedValue>>{{"<|endoftext|>", Integer{0}, true}});
  CHECK(seen.tables[1].rows ==
        std::vector<std::vector<InspectedValue>>{
            {" the", Integer{262}}, {" and", Integer{269}}, {"<|endoftext|>", Integer{0}}});
}

TEST_CASE("GPT-2's pair of files and the bytes are tokenizers") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "encoder.json",
                        R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
  write_file_atomically(folder.path() / "vocab.bpe", "#version: 0.2\na b\n");
  for (const fs::path& path :
       {folder.path(), folder.path() / "encoder.json", folder.path() / "vocab.bpe"}) {
    INFO(path.string());
    const Inspection seen = inspect_one(path);
    CHECK(joined_faults(seen).empty());
    CHECK(fact(seen, "merges") == InspectedValue(Integer{1}));
    CHECK(fact(seen, "vocab_size") == InspectedValue(Integer{4}));
  }
  fs::remove(folder.path() / "vocab.bpe");
  require_contains(joined_faults(inspect_one(folder.path())), "vocab.bpe: missing");
  CHECK(fact(inspect_one("byte"), "vocab_size") == InspectedValue(Integer{257}));
}

TEST_CASE("what is of no known kind is refused with the kinds that are") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "notes.txt";
  write_file_atomically(path, "hello");
  for (const fs::path& unknown : {path, folder.path()}) {
    const std::string error = error_of([&] { inspect(unknown.string(), {}); });
    INFO(error);
    CHECK(test::contains(error, "config: " + unknown.string()));
    CHECK(test::contains(error, "token files (.bin), safetensors files, tokenizers"));
  }
  const std::string absent = (folder.path() / "absent.bin").string();
  CHECK(error_of([&] { inspect(absent, {}); }) == "config: " + absent + ": no such file or folder");
}

TEST_CASE("spaces at the ends of a value can be seen") {
  const Inspection seen = inspect_one(test::golden("tokenizers/gpt2_style"), {.text = " the"});
  require_contains(to_text(seen), "  ' the'  262\n");
}

TEST_CASE("text on one line can be told from what it escapes") {
  CHECK(escaped("a\n\t\\\x01\x7f") == "a\\n\\t\\\\\\x01\\x7f");
  CHECK(escaped("\u00e9\u20ac\xf0\x9f\x98\x80") == "\u00e9\u20ac\xf0\x9f\x98\x80");
  CHECK(escaped("\xe2\x82") == "\\xe2\\x82");
}

}  // namespace
}  // namespace flywheel

#include "data/tokenize_job.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "data/ordered_pipeline.h"
#include "data/shard_set_writer.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/fake_tokenizer.h"
#include "support/test_data.h"
#include "support/token_files.h"

using namespace flywheel;
using test::contains;
using test::error_of;
using test::Tokens;

namespace {

namespace fs = std::filesystem;

// Name and bytes of all files of a folder.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text_file(entry.path());
  }
  return files;
}

std::string make_jsonl(int documents) {
  std::string text;
  for (int i = 0; i < documents; ++i) {
    std::string body;
    for (int word = 0; word < 1 + i % 300; ++word)
      body += "word" + std::to_string(i * word % 911) + " ";
    text += R"({"text": ")" + body + "\"}\n";
  }
  return text;
}

struct Setup {
  test::TemporaryFolder folder;
  test::FakeTokenizer tokenizer;
  TokenizeConfig config;

  explicit Setup(const std::string& input, const std::string& name = "in.jsonl") {
    write_file_atomically(folder.path() / name, input);
    config.inputs = {(folder.path() / name).string()};
    config.output = folder.path() / "out";
    config.validation_fraction = 0.1;
    config.threads = 1;
  }
  TokenizeSummary run() const {
    return tokenize_files(tokenizer, config, [](const auto&) {});
  }
  std::string error() const {
    return error_of([&] { run(); });
  }
};

}  // namespace

TEST_CASE("the pipeline keeps the order and reports the first failure", "[data]") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    OrderedPipeline<int, int> pipeline;
    int next = 0;
    std::vector<int> written;
    pipeline.take = [&](int& item) { return (item = next++) < 500; };
    pipeline.work = [](int& item) {
      require(item != 400 && item != 402, ErrorKind::Data, "item {}", item);
      return item * 2;
    };
    pipeline.write = [&](int& result) { written.push_back(result); };
    REQUIRE(error_of([&] { pipeline.run(pool); }) == "data: item 400");
    REQUIRE(written.size() == 400);
    for (int i = 0; i < 400; ++i) REQUIRE(written[i] == 2 * i);
  }
}

TEST_CASE("the pipeline passes on failures to take and to write", "[data]") {
  ThreadPool pool(3);
  OrderedPipeline<int, int> pipeline;
  std::atomic<int> next{0};
  pipeline.take = [&](int& item) {
    require((item = next++) != 50, ErrorKind::Io, "taking {}", item);
    return true;
  };
  pipeline.work = [](int& item) { return item; };
  pipeline.write = [](int&) {};
  REQUIRE(error_of([&] { pipeline.run(pool); }) == "io: taking 50");
}

TEST_CASE("shards hold what the documents' ids are, split by a hash of their text", "[data]") {
  Setup setup(make_jsonl(2000));
  setup.config.shard_tokens = 50'000;
  const TokenizeSummary summary = setup.run();
  REQUIRE(summary.train.documents + summary.validation.documents == 2000);
  REQUIRE(std::abs(static_cast<double>(summary.validation.documents) - 200) < 6 * std::sqrt(180.0));
  REQUIRE(summary.train.shards == (summary.train.tokens + 49'999) / 50'000);

  Tokens train;
  const auto files = list_shard_set(setup.config.output, "train", true);
  REQUIRE(static_cast<std::int64_t>(files.size()) == summary.train.shards);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ShardReader shard(files[i]);
    shard.verify_checksum();
    REQUIRE(shard.info().token_bytes == 4);
    REQUIRE(shard.info().vocab_size == 100'001);
    REQUIRE(shard.info().tokenizer_fingerprint == 42);
    if (i + 1 < files.size()) REQUIRE(shard.info().tokens == 50'000);
    const Tokens tokens = test::read_all(shard);
    for (const std::uint64_t start : shard.document_starts()) REQUIRE(tokens[start] == 100'000);
    REQUIRE(std::count(tokens.begin(), tokens.end(), 100'000) == shard.info().documents);
    train.insert(train.end(), tokens.begin(), tokens.end());
  }
  REQUIRE(static_cast<std::int64_t>(train.size()) == summary.train.tokens);

  // The documents in order are a subsequence of those of the input.
  const std::string input = read_text_file(setup.config.inputs[0]);
  std::size_t place = 0;
  std::int64_t found = 0;
  for (std::size_t begin = 0; begin < input.size(); begin = input.find('\n', begin) + 1) {
    const std::size_t from = begin + 10;
    Tokens ids{100'000};
    setup.tokenizer.encode(std::string_view(input).substr(from, input.find('"', from) - from), ids);
    if (place + ids.size() <= train.size() &&
        std::equal(ids.begin(), ids.end(), train.begin() + place)) {
      place += ids.size();
      ++found;
    }
  }
  REQUIRE(place == train.size());
  REQUIRE(found == summary.train.documents);
}

TEST_CASE("token files do not depend on the number of threads", "[data]") {
  Setup setup(make_jsonl(2500));
  write_file_atomically(
      setup.folder.path() / "long.txt",
      std::string(3 << 20, 'a').replace(100'000, 1, " ").replace(2'000'000, 1, " "));
  setup.config.inputs.push_back((setup.folder.path() / "long.txt").string());
  setup.config.shard_tokens = 100'000;
  setup.run();
  const auto expected = content_of(setup.config.output);
  REQUIRE(expected.size() >= 5);
  for (const int threads : {2, 3, 7}) {
    setup.config.threads = threads;
    setup.config.overwrite = true;
    setup.run();
    REQUIRE((content_of(setup.config.output) == expected));
  }
}

TEST_CASE("the split depends on text and seed alone", "[data]") {
  const auto validation = [](const std::string& input, std::uint64_t seed) {
    Setup setup(input, "in.txt");
    setup.config.document_separator = "blank";
    setup.config.validation_fraction = 0.3;
    setup.config.seed = seed;
    setup.run();
    std::set<Tokens> documents;
    const Tokens tokens =
        test::read_all(ShardReader(setup.config.output / "validation_000000.bin"));
    for (auto begin = tokens.begin(); begin != tokens.end();) {
      const auto end = std::find(begin + 1, tokens.end(), 100'000);
      documents.insert(Tokens(begin, end));
      begin = end;
    }
    return documents;
  };
  std::string forward;
  std::string backward;
  for (int i = 0; i < 200; ++i) {
    forward += "document " + std::to_string(i) + "\n\n";
    backward += "document " + std::to_string(199 - i) + "\n\n\n";
  }
  REQUIRE(validation(forward, 1) == validation(backward, 1));
  REQUIRE(validation(forward, 1) != validation(forward, 2));
}

TEST_CASE("existing token files are kept unless they may be overwritten", "[data]") {
  Setup setup(make_jsonl(300));
  setup.config.shard_tokens = 2'000;
  setup.run();
  const auto first = content_of(setup.config.output);
  REQUIRE(contains(setup.error(), "config: " + (setup.config.output / "train_000000.bin").string() +
                                      ": exists; choose another --output or pass --overwrite"));
  REQUIRE(content_of(setup.config.output) == first);

  write_file_atomically(setup.config.output / "notes.txt", "mine");
  write_file_atomically(setup.config.output / "train_000000.bin.partial", "left by a killed run");
  setup.config.overwrite = true;
  setup.config.shard_tokens = 1'000'000;
  setup.run();
  std::vector<std::string> names;
  for (const auto& [name, bytes] : content_of(setup.config.output)) names.push_back(name);
  REQUIRE(names ==
          std::vector<std::string>{"notes.txt", "train_000000.bin", "validation_000000.bin"});
}

TEST_CASE("a failed run leaves the folder as it was", "[data]") {
  Setup setup(make_jsonl(3000) + "{\"text\": \"poison\"}\n");
  setup.config.shard_tokens = 10'000;
  setup.config.threads = 2;
  REQUIRE(setup.error() == "internal: poisoned");
  REQUIRE(content_of(setup.config.output).empty());

  write_file_atomically(setup.config.output / "train_000000.bin", "older");
  setup.config.overwrite = true;
  REQUIRE(setup.error() == "internal: poisoned");
  REQUIRE(content_of(setup.config.output) ==
          std::map<std::string, std::string>{{"train_000000.bin", "older"}});
}

TEST_CASE("unusable input and settings are errors", "[data]") {
  Setup setup("\n\n");
  REQUIRE(contains(setup.error(), "no text in the input"));
  setup.config.validation_fraction = 1;
  REQUIRE(contains(setup.error(), "validation fraction 1"));
  setup.config.validation_fraction = 0;
  setup.config.shard_tokens = 0;
  REQUIRE(contains(setup.error(), "0 tokens a shard"));
  setup.config.shard_tokens = 1;
  setup.config.output = setup.config.inputs[0];
  REQUIRE(contains(setup.error(), "io: " + setup.config.inputs[0] + ": cannot create the folder"));
}

TEST_CASE("progress counts every byte of the input", "[data]") {
  Setup setup(make_jsonl(5000));
  TokenizeProgress last;
  tokenize_files(setup.tokenizer, setup.config, [&](const TokenizeProgress& progress) {
    REQUIRE(progress.bytes > last.bytes);
    last = progress;
  });
  REQUIRE(last.bytes == last.total_bytes);
  REQUIRE(last.total_bytes == fs::file_size(setup.config.inputs[0]));
  REQUIRE(last.documents == 5000);
}

#include "data/loader.h"

#include <algorithm>
#include <map>
#include <random>

#include "data/shard.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"
#include "support/token_files.h"

using namespace flywheel;
using test::contains;
using test::error_of;
using test::Tokens;

namespace {

// Shards of random documents, and the run of tokens that they make.
struct Corpus {
  std::vector<std::string> files;
  Tokens tokens;
};

Corpus make_corpus(const std::filesystem::path& folder, const std::string& name, int shards,
                   int tokens, unsigned seed) {
  std::mt19937 random(seed);
  Corpus corpus;
  for (int shard = 0; shard < shards; ++shard) {
    std::vector<Tokens> documents;
    for (int left = tokens / shards; left > 0;) {
      const int length = std::min(left, 1 + static_cast<int>(random() % 40));
      Tokens document(static_cast<std::size_t>(length - 1));
      for (std::int32_t& token : document) token = 1 + static_cast<std::int32_t>(random() % 50000);
      documents.push_back(document);
      left -= length;
    }
    const auto path = folder / (name + std::to_string(shard) + ".bin");
    test::write_shard(path, documents);
    corpus.files.push_back(path.string());
    const Tokens read = test::read_all(ShardReader(path));
    corpus.tokens.insert(corpus.tokens.end(), read.begin(), read.end());
  }
  return corpus;
}

LoaderConfig config_of(const Corpus& corpus, std::int64_t sequence_length) {
  LoaderConfig config;
  config.sources = {{corpus.files, 1.0}};
  config.sequence_length = sequence_length;
  config.seed = 11;
  return config;
}

// A window: its inputs and the last target.
std::vector<Tokens> windows_of(const Batch& batch, std::int64_t sequence_length) {
  std::vector<Tokens> windows;
  const auto length = static_cast<std::size_t>(sequence_length);
  for (std::size_t begin = 0; begin < batch.inputs.size(); begin += length) {
    Tokens window(batch.inputs.begin() + begin, batch.inputs.begin() + begin + length);
    for (std::size_t i = 0; i + 1 < length; ++i) REQUIRE(window[i + 1] == batch.targets[begin + i]);
    window.push_back(batch.targets[begin + length - 1]);
    windows.push_back(window);
  }
  return windows;
}

std::vector<Tokens> take_windows(const LoaderConfig& config, std::int64_t start,
                                 std::int64_t count) {
  Loader loader(config, 1, {start});
  std::vector<Tokens> windows;
  for (std::int64_t i = 0; i < count; ++i) {
    windows.push_back(windows_of(loader.next(), config.sequence_length).at(0));
  }
  return windows;
}

}  // namespace

TEST_CASE("an epoch visits every window once, across shards, and the next one in another order",
          "[data]") {
  const test::TemporaryFolder folder;
  for (const int tokens : {9, 18, 700, 5003}) {
    for (const int shards : {1, 3}) {
      const Corpus corpus = make_corpus(folder.path(), "a", shards, tokens, 1);
      const LoaderConfig config = config_of(corpus, 8);
      const auto total = static_cast<std::int64_t>(corpus.tokens.size());
      const std::int64_t count = (total - 1) / 8;
      INFO("tokens " << total << " shards " << shards);
      std::vector<Tokens> expected;
      for (std::int64_t w = 0; w < count; ++w) {
        expected.emplace_back(corpus.tokens.begin() + w * 8, corpus.tokens.begin() + w * 8 + 9);
      }
      std::sort(expected.begin(), expected.end());
      const auto windows = take_windows(config, 0, 2 * count);
      std::vector<Tokens> first(windows.begin(), windows.begin() + count);
      std::vector<Tokens> second(windows.begin() + count, windows.end());
      if (count > 20) {
        REQUIRE(first != second);
        REQUIRE(first != expected);
      }
      std::sort(first.begin(), first.end());
      std::sort(second.begin(), second.end());
      REQUIRE(first == expected);
      REQUIRE(second == expected);
    }
  }
}

TEST_CASE("the order is the same for any number of ranks, any batch size and any start", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 3, 1000, 2);
  const Corpus other = make_corpus(folder.path(), "b", 2, 300, 3);
  LoaderConfig config = config_of(corpus, 10);
  config.sources.push_back({other.files, 0.7});
  const auto expected = take_windows(config, 0, 400);
  std::mt19937 random(5);
  for (int trial = 0; trial < 30; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 4);
    const auto batch = static_cast<std::int64_t>(1 + random() % 5);
    const auto start = static_cast<std::int64_t>(random() % 200);
    INFO("ranks " << ranks << " batch " << batch << " start " << start);
    const std::int64_t steps = (400 - start) / (ranks * batch);
    for (int rank = 0; rank < ranks; ++rank) {
      Loader loader(config, batch, {start}, rank, ranks);
      for (std::int64_t step = 0; step < steps; ++step) {
        REQUIRE(loader.position().windows == start + step * batch * ranks);
        const Batch& got = loader.next();
        REQUIRE(got.first_window == start + step * batch * ranks + rank);
        const auto windows = windows_of(got, 10);
        for (std::int64_t i = 0; i < batch; ++i) {
          REQUIRE(windows.at(i) == expected.at(got.first_window + i * ranks));
        }
      }
    }
  }
}

TEST_CASE("a loader that starts where another stands goes on with the same batches", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 2, 600, 4);
  LoaderConfig config = config_of(corpus, 7);
  config.document_mask = true;
  Loader loader(config, 3, {});
  for (int step = 0; step < 60; ++step) {  // across several epochs
    Loader resumed(config, 3, loader.position());
    REQUIRE(resumed.epochs() == loader.epochs());
    const Batch& a = loader.next();
    const Batch& b = resumed.next();
    REQUIRE(std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end()));
    REQUIRE(std::equal(a.targets.begin(), a.targets.end(), b.targets.begin(), b.targets.end()));
    REQUIRE(std::equal(a.cu_seqlens.begin(), a.cu_seqlens.end(), b.cu_seqlens.begin(),
                       b.cu_seqlens.end()));
  }
  REQUIRE(loader.epochs() == Approx(180.0 / ((600 - 1) / 7)));
}

TEST_CASE("seed and source change the order", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 1, 2000, 4);
  LoaderConfig config = config_of(corpus, 8);
  const auto one = take_windows(config, 0, 100);
  config.seed = 12;
  REQUIRE(take_windows(config, 0, 100) != one);
}

TEST_CASE("sequences are cut before each end-of-document id under the document mask", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 3, 3000, 6);
  for (const bool mask : {false, true}) {
    LoaderConfig config = config_of(corpus, 50);
    config.document_mask = mask;
    Loader loader(config, 4, {});
    for (int step = 0; step < 30; ++step) {
      const Batch& batch = loader.next();
      REQUIRE(batch.inputs.size() == 200);
      REQUIRE(batch.positions.size() == 200);
      Tokens bounds;
      Tokens positions;
      for (std::int32_t t = 0; t < 200; ++t) {
        const bool begins = t % 50 == 0 || (mask && batch.inputs[t] == 0);
        if (begins) bounds.push_back(t);
        positions.push_back(t - bounds.back());
      }
      bounds.push_back(200);
      REQUIRE(Tokens(batch.cu_seqlens.begin(), batch.cu_seqlens.end()) == bounds);
      REQUIRE(Tokens(batch.positions.begin(), batch.positions.end()) == positions);
    }
  }
}

TEST_CASE("without shuffling the first windows come in file order, again and again", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 2, 500, 7);
  LoaderConfig config = config_of(corpus, 8);
  config.shuffle = false;
  config.window_limit = 5;
  REQUIRE(Loader(config, 1, {}).summary().windows_per_epoch == 5);
  const auto windows = take_windows(config, 0, 12);
  for (int i = 0; i < 12; ++i) {
    const auto begin = corpus.tokens.begin() + i % 5 * 8;
    REQUIRE(windows.at(i) == Tokens(begin, begin + 9));
  }
  config.window_limit = 1000;
  REQUIRE(Loader(config, 1, {}).summary().windows_per_epoch == 62);
}

TEST_CASE("patterns name shards in sorted order", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "train_", 3, 500, 7);
  LoaderConfig config = config_of(corpus, 8);
  const auto expected = take_windows(config, 0, 50);
  config.sources = {{{(folder.path() / "train_*.bin").string()}, 3.0}};
  REQUIRE(take_windows(config, 0, 50) == expected);
}

TEST_CASE("the fingerprint changes with the data", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 2, 500, 7);
  const LoaderConfig config = config_of(corpus, 8);
  const DataSummary before = Loader(config, 1, {}).summary();
  REQUIRE(before.tokens == 500);
  REQUIRE(before.vocab_size == 50257);
  REQUIRE(before.tokenizer_fingerprint == 7);
  REQUIRE(Loader(config, 2, {}).summary().fingerprint == before.fingerprint);

  ShardReader shard(corpus.files[1]);
  Tokens tokens = test::read_all(shard);
  tokens[100] ^= 1;
  test::write_shard(corpus.files[1], {Tokens(tokens.begin() + 1, tokens.end())});
  REQUIRE(Loader(config, 1, {}).summary().fingerprint != before.fingerprint);
}

TEST_CASE("unusable data and settings are errors that say what to do", "[data]") {
  const test::TemporaryFolder folder;
  const Corpus corpus = make_corpus(folder.path(), "a", 2, 100, 7);
  LoaderConfig config = config_of(corpus, 100);
  const auto opening = [&] { return error_of([&] { Loader(config, 1, {}); }); };
  const std::string second = (folder.path() / "second.bin").string();

  REQUIRE(
      contains(opening(), "100 tokens in 2 file(s), but a window takes sequence_length + 1 = 101"));
  config.sequence_length = 99;
  REQUIRE(opening() == "nothing was thrown");
  config.sources.clear();
  REQUIRE(contains(opening(), "no sources"));
  config = config_of(corpus, 0);
  REQUIRE(contains(opening(), "sequence_length is 0"));
  config = config_of(corpus, 10);
  config.sources[0].weight = 0;
  REQUIRE(contains(opening(), "weight 0 of source"));
  config.sources = {{{(folder.path() / "none*").string()}, 1.0}};
  REQUIRE(contains(opening(), "no file matches this pattern"));
  config.sources = {{{(folder.path() / "none").string()}, 1.0}};
  REQUIRE(contains(opening(), "no such file"));
  config.sources = {{{folder.path().string()}, 1.0}};
  REQUIRE(contains(opening(), "a folder"));

  config = config_of(corpus, 10);
  config.sources.push_back({{second}, 1.0});
  test::write_shard(second, {Tokens(50, 1)}, 50257, 2, 8);
  REQUIRE(contains(opening(), "made by another tokenizer (fingerprint 0000000000000008) than"));
  config = config_of(corpus, 10);
  config.vocab_size = 50256;
  REQUIRE(contains(opening(), "made for a vocabulary of 50257 ids, but the model's has 50256"));
  REQUIRE(contains(error_of([&] { Loader(config_of(corpus, 10), 1, {-1}); }), "data position -1"));
}

TEST_CASE("errors of the reader thread surface in next()", "[data]") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "gpt2.bin").string();
  std::vector<std::uint16_t> tokens(1000, 5);
  tokens[500] = 60000;
  test::write_foreign_shard(path, 20240520, 1, tokens);
  LoaderConfig config;
  config.sources = {{{path}, 1.0}};
  config.sequence_length = 10;
  config.shuffle = false;
  config.vocab_size = 50257;
  Loader loader(config, 1, {});
  for (int i = 0; i < 49; ++i) loader.next();
  for (int i = 0; i < 2; ++i) {
    REQUIRE(contains(error_of([&] { loader.next(); }),
                     "token 60000 in window 49, but the model's vocabulary has 50257 ids"));
  }
  REQUIRE(loader.position().windows == 49);
}

TEST_CASE("foreign shards are cut into documents, too", "[data]") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "gpt2.bin").string();
  test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {50256, 1, 2, 50256, 3, 4, 5, 6, 7});
  LoaderConfig config;
  config.sources = {{{path}, 1.0}};
  config.sequence_length = 8;
  config.document_mask = true;
  Loader loader(config, 1, {});
  const Batch& batch = loader.next();
  REQUIRE(Tokens(batch.cu_seqlens.begin(), batch.cu_seqlens.end()) == Tokens{0, 3, 8});
}

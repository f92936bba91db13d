// Speed of the loader and of tokenizing, each beside what bounds it in the same run: a copy in
// memory of as many bytes, and the tokenizer alone on one thread.
//
//   bench_load --tokenizer ../shared/data/tokenizers/gpt2 --text ../shared/data/text

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <cxxopts.hpp>
#include <filesystem>
#include <functional>

#include "core/file_io.h"
#include "core/philox.h"
#include "data/input_files.h"
#include "data/loader.h"
#include "data/shard.h"
#include "data/tokenize_job.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace flywheel::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("bench_load_{}", ::getpid())) {
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_random_shard(const fs::path& folder, std::int64_t tokens) {
  const RandomSequence random(1, RandomStream::kCorpus);
  ShardInfo info;
  info.vocab_size = 50257;
  info.end_of_document = 50256;
  const fs::path path = folder / "random.bin";
  ShardWriter writer(path, info);
  std::vector<std::int32_t> document(1000);
  for (std::uint64_t i = 0; writer.tokens() < tokens; ++i) {
    for (std::size_t t = 0; t < document.size(); ++t) {
      document[t] = static_cast<std::int32_t>(random.below(i * document.size() + t, 50256));
    }
    writer.add_document(document);
  }
  writer.close();
}

// Batches of 8 x 1024, whole epochs, by a consumer that does nothing.
void bench_loader(const Folder& folder, std::int64_t tokens, bool document_mask) {
  LoaderConfig config;
  config.sources = {{{(folder.path() / "random.bin").string()}, 1.0}};
  config.document_mask = document_mask;
  const std::int64_t batches = tokens / (8 * 1024);
  // A token is read once (2 bytes) and written as input, target and position (12 bytes).
  std::vector<char> from(static_cast<std::size_t>(tokens) * 7, 1);
  std::vector<char> to(from.size());
  double loader_seconds = 1e9;
  double copy_seconds = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    Loader loader(config, 8, {});
    loader_seconds = std::min(loader_seconds, seconds_of([&] {
                                for (std::int64_t i = 0; i < batches; ++i) loader.next();
                              }));
    copy_seconds = std::min(copy_seconds,
                            seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); }));
  }
  const auto count = static_cast<double>(batches * 8 * 1024);
  fmt::print("loader{}: {:.1f}M tokens/s; a copy of as many bytes: {:.1f}M tokens/s\n",
             document_mask ? ", document mask" : "", count / loader_seconds / 1e6,
             static_cast<double>(tokens) / copy_seconds / 1e6);
}

void bench_tokenize(const Folder& folder, const std::string& tokenizer_name,
                    const std::string& text_path, int threads) {
  const auto tokenizer = Tokenizer::load(tokenizer_name);
  std::string text;
  while (text.size() < (std::size_t{20} << 20)) {
    for (const fs::path& file : list_text_files({text_path})) text += read_text_file(file);
  }
  write_file_atomically(folder.path() / "text.txt", text);
  TokenizeConfig config;
  config.inputs = {(folder.path() / "text.txt").string()};
  config.output = folder.path() / "out";
  config.validation_fraction = 0;
  config.overwrite = true;
  std::vector<double> best(static_cast<std::size_t>(threads) + 1, 1e9);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::int32_t> ids;
    best[0] = std::min(best[0], seconds_of([&] { tokenizer->encode(text, ids); }));
    for (int count = 1; count <= threads; ++count) {
      config.threads = count;
      double& seconds = best[static_cast<std::size_t>(count)];
      seconds = std::min(
          seconds, seconds_of([&] { tokenize_files(*tokenizer, config, [](const auto&) {}); }));
    }
  }
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  fmt::print("encode() alone, one thread: {:.1f} MB/s\n", megabytes / best[0]);
  for (std::size_t count = 1; count < best.size(); ++count) {
    fmt::print("tokenize, {} thread(s): {:.1f} MB/s\n", count, megabytes / best[count]);
  }
}

int run(int argc, char** argv) {
  cxxopts::Options options("bench_load", "Speed of the loader and of tokenizing.");
  auto option = options.add_options();
  option("tokens", "tokens of the loader's shard",
         cxxopts::value<std::int64_t>()->default_value("32000000"));
  option("tokenizer", "as for tokenize", cxxopts::value<std::string>()->default_value("byte"));
  option("text", "text file or folder; none: only the loader", cxxopts::value<std::string>());
  option("threads", "tokenize with 1 to this many threads",
         cxxopts::value<int>()->default_value("2"));
  option("help", "print this");
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}", options.help());
    return 0;
  }
  const Folder folder;
  const auto tokens = args["tokens"].as<std::int64_t>();
  write_random_shard(folder.path(), tokens);
  bench_loader(folder, tokens, false);
  bench_loader(folder, tokens, true);
  if (args.count("text") != 0) {
    bench_tokenize(folder, args["tokenizer"].as<std::string>(), args["text"].as<std::string>(),
                   args["threads"].as<int>());
  }
  return 0;
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  return flywheel::run_program("bench_load", argc, argv, flywheel::bench::run);
}

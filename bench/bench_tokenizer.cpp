// Speed of encoding whole files: best of several rounds for each tokenizer and file.
//   bench_tokenizer [--json FILE] [--rounds N] TOKENIZER FILE...
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cxxopts.hpp>
#include <exception>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "data/tokenizer.h"

namespace {

using namespace flywheel;

struct Result {
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  double seconds = 1e30;  // of the best round
};

Result measure(const Tokenizer& tokenizer, const std::vector<std::string>& texts, int rounds) {
  Result result;
  std::vector<std::int32_t> ids;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::size_t tokens = 0;
    std::size_t bytes = 0;
    for (const std::string& text : texts) {
      ids.clear();
      tokenizer.encode(text, ids);
      tokens += ids.size();
      bytes += text.size();
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    result = {bytes, tokens, std::min(result.seconds, elapsed.count())};
  }
  return result;
}

std::string as_json(const std::string& tokenizer, const Result& result) {
  return fmt::format(
      R"({{"tokenizer": "{}", "bytes": {}, "tokens": {}, "seconds": {:.6f}, "mb_per_s": {:.3f}, "tokens_per_s": {:.0f}}})",
      tokenizer, result.bytes, result.tokens, result.seconds,
      static_cast<double>(result.bytes) / result.seconds * 1e-6,
      static_cast<double>(result.tokens) / result.seconds);
}

int run(int argc, char** argv) {
  cxxopts::Options options("bench_tokenizer", "Speed of encoding whole files on one thread");
  options.add_options()("json", "also write the result here", cxxopts::value<std::string>())(
      "rounds", "the best of so many rounds counts", cxxopts::value<int>()->default_value("3"))(
      "tokenizer", "name, tokenizer.json or folder", cxxopts::value<std::string>())(
      "files", "texts", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"tokenizer", "files"});
  const auto arguments = options.parse(argc, argv);
  const auto name = arguments["tokenizer"].as<std::string>();
  const auto tokenizer = Tokenizer::load(name);
  std::vector<std::string> texts;
  for (const std::string& file : arguments["files"].as<std::vector<std::string>>()) {
    texts.push_back(read_text_file(file));
  }
  const Result result = measure(*tokenizer, texts, arguments["rounds"].as<int>());
  const std::string json = as_json(name, result);
  fmt::print("{:.1f} MB/s, {:.2f} M tokens/s ({} bytes, {} tokens, best of {} rounds)\n",
             static_cast<double>(result.bytes) / result.seconds * 1e-6,
             static_cast<double>(result.tokens) / result.seconds * 1e-6, result.bytes,
             result.tokens, arguments["rounds"].as<int>());
  if (arguments.count("json")) {
    write_file_atomically(arguments["json"].as<std::string>(), json + "\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const flywheel::Error& error) {
    fmt::print(stderr, "bench_tokenizer: {}\n", error.what());
    return flywheel::exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_tokenizer: {}\n", error.what());
    return 2;
  }
}

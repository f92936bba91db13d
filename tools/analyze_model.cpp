#include "tools/analyze_model.h"

#include "core/error.h"
#include "core/file_io.h"
#include "cpu/cpu_backend.h"
#include "data/utf8.h"
#include "eval/encoding.h"
#include "tools/analyze_flags.h"

namespace flywheel {

void add_text_flags(cxxopts::Options& options) {
  auto option = options.add_options("Text");
  option("text", "the text to read, UTF-8", cxxopts::value<std::string>(), "FILE");
  option("max-length", "tokens of a window; 0: the model's positions",
         cxxopts::value<std::int64_t>()->default_value("0"), "N");
  option("windows", "only the first N windows; 0: all",
         cxxopts::value<std::int64_t>()->default_value("0"), "N");
  option("seed", "of the permutations", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
}

namespace {

// The text in windows of `length` tokens.
std::vector<TokenRequest> read_windows(const OpenedModel& opened, std::int64_t length,
                                       const cxxopts::ParseResult& args) {
  const Tokenizer& tokenizer = *opened.tokenizer;
  const std::int32_t begin = opened.special.begin;
  const RequestEncoder encoder(
      tokenizer,
      {.prefix_token = begin < 0 ? tokenizer.end_of_document() : begin, .max_length = length});
  const std::string file = args["text"].as<std::string>();
  auto windows = encoder.encode_rolling(replace_invalid_utf8(read_text_file(file)), length);
  require(!windows.empty(), ErrorKind::Data, "{}: no text in it", file);
  const std::int64_t most = count_flag(args, "windows", 0);
  if (most > 0 && most < std::ssize(windows)) windows.resize(static_cast<std::size_t>(most));
  return windows;
}

}  // namespace

ModelAndText open_model_and_text(const std::string& name, const cxxopts::ParseResult& args) {
  require(args.count("text") != 0, ErrorKind::Config, "--text is missing: name a text file");
  const OpenedModel opened = open_model(name);
  ModelConfig config = opened.config;
  config.attention.per_sequence = false;  // a text does not depend on its neighbours
  const std::int64_t wanted = count_flag(args, "max-length", 0);
  const std::int64_t length = wanted == 0 ? config.max_positions : wanted;
  require(length <= config.max_positions, ErrorKind::Config, "--max-length {}: {} has {} positions",
          wanted, name, config.max_positions);
  auto windows = read_windows(opened, length, args);
  const TransformerLimits limits{
      .max_tokens = std::max<std::int64_t>(length, 4096), .max_sequences = 64, .training = false};
  auto backend = make_cpu_backend(args["threads"].as<int>());
  auto model = load_transformer(opened.weights, config, *backend, limits);
  return {.limits = limits,
          .backend = std::move(backend),
          .model = std::move(model),
          .windows = std::move(windows)};
}

}  // namespace flywheel

// inspect: says what files hold, and whether they are whole.

#include "train/inspect.h"

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

constexpr const char* kExamples = R"(
Kinds: token files (.bin: ours, llm.c's, modded-nanogpt's), safetensors files, tokenizers, a run's config, a
checkpoint (step_XXXXXXXX/), a run's folder, a folder of token files, a model (Hugging Face folder, .gguf, llama2.c's .bin).

Exit codes: 0 all is whole, 1 something is not (it is named), 2 wrong arguments or a file of no known kind.

Examples:
  inspect runs/demo/train
  inspect runs/demo/train/latest configs/demo.json
  inspect --tokenizer tokenizer.json --show 40 'data/mine/train_000000.bin'
  inspect --text "Once upon a time" tokenizer.json
  inspect --json runs/demo/train | jq '.inspected[0].checkpoints'
)";

constexpr int kExitDamaged = 1;

cxxopts::Options make_options() {
  cxxopts::Options options("inspect", "Says what files hold, and whether they are whole.");
  options.positional_help("PATH...");
  auto option = options.add_options();
  option("tokenizer", "tokenizer that token files should be made with: byte, or a path",
         cxxopts::value<std::string>(), "NAME|PATH");
  option("show", "show the first N tokens of token files, with --tokenizer their text, too",
         cxxopts::value<std::int64_t>()->default_value("0"), "N");
  option("text", "show the tokens of a text, for tokenizers", cxxopts::value<std::string>(),
         "TEXT");
  option("json", "print one JSON object");
  option("help", "print this");
  option("path", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("path");
  return options;
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help(), kExamples);
    return 0;
  }
  require(args.count("path") != 0, ErrorKind::Config, "nothing to inspect; see inspect --help");
  std::unique_ptr<Tokenizer> tokenizer;
  if (args.count("tokenizer") != 0) {
    tokenizer = Tokenizer::load(args["tokenizer"].as<std::string>());
  }
  InspectOptions wanted{.tokenizer = tokenizer.get(), .show = args["show"].as<std::int64_t>()};
  require(wanted.show >= 0, ErrorKind::Config, "--show {}: expected 0 or more", wanted.show);
  if (args.count("text") != 0) wanted.text = args["text"].as<std::string>();

  const bool json = args.count("json") != 0;
  int code = 0;
  std::vector<Inspection> all;
  for (const std::string& path : args["path"].as<std::vector<std::string>>()) {
    try {
      for (Inspection& inspection : inspect(path, wanted)) {
        if (!inspection.whole() && code == 0) code = kExitDamaged;
        if (!json) fmt::print("{}{}", all.empty() ? "" : "\n", to_text(inspection));
        all.push_back(std::move(inspection));
      }
    } catch (const Error& error) {  // nothing that is known; the other paths are still described
      fmt::print(stderr, "inspect: error: {}\n", error.what());
      code = exit_code(error.kind());
    }
  }
  if (json) fmt::print("{}", to_json(all));
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("inspect", argc, argv, run);
}

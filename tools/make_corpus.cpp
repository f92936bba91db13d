// make_corpus: writes the demo's corpus of stories, its tokenizer and the recall test.

#include <fmt/format.h>

#include <cstdint>
#include <cxxopts.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/error.h"
#include "core/file_io.h"
#include "data/story_corpus.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

namespace fs = std::filesystem;
using namespace flywheel;

void write(FileWriter& file, const std::string& text) {
  file.write(std::as_bytes(std::span(text)));
}

// Stories [first, first + count), one JSON object a line; with `recalls` the places to test, too.
void write_stories(const fs::path& path, std::uint64_t seed, std::uint32_t first,
                   std::uint32_t count, bool recalls) {
  FileWriter file(path);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Story story = make_story(seed, first + i);
    nlohmann::ordered_json line = {{"text", story.text}};
    if (recalls) {
      for (const Recall& recall : story.recalls) {
        line["recalls"].push_back({{"kind", recall.kind},
                                   {"begin", recall.begin},
                                   {"end", recall.end},
                                   {"gap", recall.gap}});
      }
    }
    write(file, line.dump() + "\n");
  }
  file.close();
}

int run(int argc, char** argv) {
  cxxopts::Options options(
      "make_corpus",
      "Writes stories.jsonl, recall.jsonl (held-out stories with the places at "
      "which a fact must be recalled) and tokenizer.json into a folder.");
  auto option = options.add_options();
  option("output", "folder to write to", cxxopts::value<std::string>());
  option("stories", "number of stories for training",
         cxxopts::value<std::uint32_t>()->default_value("30000"));
  option("held-out", "number of stories for the recall test",
         cxxopts::value<std::uint32_t>()->default_value("400"));
  option("seed", "seed of everything", cxxopts::value<std::uint64_t>()->default_value("1"));
  option("help", "print this");
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  require(args.count("output") != 0, ErrorKind::Config,
          "--output is missing: name the folder to write to");

  const fs::path folder = args["output"].as<std::string>();
  const auto stories = args["stories"].as<std::uint32_t>();
  const auto held_out = args["held-out"].as<std::uint32_t>();
  const auto seed = args["seed"].as<std::uint64_t>();
  create_folders(folder);
  write_stories(folder / "stories.jsonl", seed, 0, stories, false);
  write_stories(folder / "recall.jsonl", seed, stories, held_out, true);
  write_file_atomically(folder / "tokenizer.json", story_tokenizer_json());
  fmt::print("{}: {} stories for training, {} held out for recall\n", folder.string(), stories,
             held_out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("make_corpus", argc, argv, run);
}

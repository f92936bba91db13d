#include <algorithm>

#include "core/json_fields.h"
#include "e2e/train_program.h"
#include "support/catch.h"
#include "support/run_command.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::CommandResult;
using test::require_contains;
using test::run_command;
using test::TrainProgram;

// A model trained for a few steps, which also draws samples.
struct Trained {
  TrainProgram program;
  Trained() {
    REQUIRE(program.run({"--set", "samples.every=6", "--set", R"(samples.prompts=["ab","é"])",
                         "--set", "samples.tokens=5", "--set", "log.tensorboard=true"}) == 0);
  }
  CommandResult generate(const std::string& arguments) const {
    return run_command(program.path(""),
                       std::string(GENERATE_PROGRAM) + " --model run " + arguments);
  }
  std::string output(const std::string& arguments) const {
    const CommandResult result = generate(arguments);
    CAPTURE(result.output);
    REQUIRE(result.exit_code == 0);
    return result.output;
  }
  std::vector<Json> lines(const std::string& arguments) const {
    const std::string text = output(arguments + " --json");
    std::vector<Json> lines;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      lines.push_back(Json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }
};

TEST_CASE("generate and the samples of train, as users see them") {
  const Trained trained;

  // train: every 6 of 12 steps two samples, in the log and in the metrics.
  require_contains(trained.program.log(), "step 6  sample: ab");
  require_contains(trained.program.log(), "step 12  sample: \u00E9");
  const std::string metrics = trained.program.file("metrics.jsonl");
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = metrics.find(R"("kind":"sample")", at)) != std::string::npos;
       ++at) {
    ++samples;
  }
  REQUIRE(samples == 4);

  // One text streams: the prompt, then as many bytes as tokens at most.
  const std::string text = trained.output("--prompt hello --tokens 8 --temperature 0");
  require_contains(text, "hello");
  REQUIRE(trained.output("--prompt hello --tokens 8 --temperature 0") == text);

  // JSON: prompts, samples, tokens; a batch of one gives the same as all together.
  write_file_atomically(trained.program.path("p.txt"), "one, two\nthree\n");
  const auto all = trained.lines("--prompt a --prompts p.txt --num-samples 2 --tokens 6");
  REQUIRE(all.size() == 6);
  REQUIRE(all == trained.lines("--prompt a --prompts p.txt --num-samples 2 --tokens 6 --batch 1"));
  REQUIRE(all[2]["prompt"] == "one, two");
  REQUIRE(all[3]["sample"] == 1);
  REQUIRE(all[2]["prompt_tokens"] == 9);  // and the token that begins a document
  REQUIRE(all[2]["tokens"] != all[3]["tokens"]);
  for (const Json& line : all) {
    const bool whole = line["finish_reason"] == "length" && line["tokens"].size() == 6;
    REQUIRE((whole || line["finish_reason"] == "end_of_text"));
  }

  // Windowed decoding runs; the context ends a text.
  REQUIRE(trained.lines("--prompt a --decode window --tokens 6").size() == 1);
  REQUIRE(trained.lines("--prompt a --tokens 500")[0]["finish_reason"] != "length");

  // Another attention for the prompt.
  REQUIRE(trained.lines("--prompt abcdefgh --attention swa --window 2 --tokens 6").size() == 1);
  const std::string moba = "--prompt abcdefgh --attention moba --moba-block 3 --tokens 6";
  REQUIRE(trained.lines(moba).size() == 1);
  REQUIRE(trained.lines(moba + " --moba-topk 3") == trained.lines("--prompt abcdefgh --tokens 6"));

  // A stop string: taken from a text that came without one.
  const Json& first = all[0];
  const auto ids = first["tokens"].get<std::vector<int>>();
  if (!ids.empty() && ids[0] < 0x80 && ids[0] > 0x20 && ids[0] != '\'') {
    const std::string stop(1, static_cast<char>(ids[0]));
    const Json stopped = trained.lines("--prompt a --tokens 6 --stop '" + stop + "'")[0];
    REQUIRE(stopped["text"] == "");
    REQUIRE(stopped["finish_reason"] == "stop");
  }
}

TEST_CASE("output that is lost is an error") {
  const Trained trained;
  const CommandResult result =
      run_command(trained.program.path(""),
                  "( " GENERATE_PROGRAM " --model run --prompt a --tokens 2 2>&1 >/dev/full )");
  REQUIRE(result.exit_code == 4);
  REQUIRE(result.output ==
          "generate: error: standard output cannot be written: is the disk full?\n");
}

TEST_CASE("wrong arguments of generate get one line that says what is right") {
  const Trained trained;
  const auto refused = [&](const std::string& arguments, const std::string& what) {
    const CommandResult result = trained.generate(arguments);
    CAPTURE(arguments);
    REQUIRE(result.exit_code == 2);
    require_contains(result.output, "generate: error: ");
    require_contains(result.output, what);
    REQUIRE(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  };
  refused("--temperature -1", "temperature must be 0 (the most likely token) or more, not -1");
  refused("--top-p 0", "top-p must be above 0 and at most 1 (all tokens), not 0");
  refused("--decode none", "--decode must be full or window, not 'none'");
  refused("--top-k 3 --temprature 1", "no option '--temprature'; did you mean '--temperature'?");
  refused("--colour 3", "no option '--colour' (--help lists them)");
  refused("--prompt a --top-k many", "--top-k does not take 'many'");
  refused("--num-samples 1 --top-k 1x", "--top-k does not take '1x'");
  refused("--tokens -3", "--tokens must be 0 or more, not -3");
  refused("--num-samples 0", "--num-samples must be 1 to 1000000, not 0");
  refused("--prompt x --prompt " + std::string(40, 'a'),
          "prompt 2 has 41 tokens, more than the context of 32");
  refused("--attention so", "attention \"so\": unknown pattern, did you mean \"sa\"?");
  refused("--nonsense", "nonsense");
}

}  // namespace
}  // namespace flywheel

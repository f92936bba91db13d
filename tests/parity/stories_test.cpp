#include <cstdio>

#include "cpu/cpu_backend.h"
#include "infer/export_model.h"
#include "infer/generator.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

// What llama2.c's own program writes at temperature 0.
constexpr const char* kReference =
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball. She wanted to play with it, but it was too high.\n"
    "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She "
    "said, \"I want to play with your ball, but I can't find it.\"\n"
    "Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to "
    "do.\"\n"
    "Lily didn't want to help her mom, so she said, ";

std::string greedy_text(const OpenedModel& opened, std::int64_t tokens) {
  const auto backend = make_cpu_backend(2);
  const std::int64_t prompt_length = 1;
  const TransformerLimits limits =
      generation_limits(opened.config, std::span(&prompt_length, 1), tokens, 1);
  const auto model = load_transformer(opened.weights, opened.config, *backend, limits);
  const GenerateRequest request{.prompt = {opened.special.begin}};
  GenerateOptions options{.tokens = tokens, .stop_tokens = opened.special.end};
  options.sampling.temperature = 0;
  const auto more = generate(*model, limits, std::span(&request, 1), options).front().tokens;
  std::vector<std::int32_t> ids = request.prompt;
  ids.insert(ids.end(), more.begin(), more.end());
  return opened.tokenizer->decode(ids).substr(3);  // behind "<s>"
}

}  // namespace

TEST_CASE("stories260K tells llama2.c's story", "[import]") {
  const auto path = real_data("models/stories260K/stories260K.bin");
  if (!path) {
    std::printf("skipped: no models/stories260K among the real data\n");
    return;
  }
  const OpenedModel opened = open_model(*path);
  REQUIRE(opened.kind == "llama2.c file");
  REQUIRE(opened.config.head_dim == 0);
  const std::string text = greedy_text(opened, 256);
  REQUIRE(text.substr(0, std::string(kReference).size()) == kReference);
  const TemporaryFolder folder;
  export_model(opened, folder.path(), {.type = StoredType::F32});
  REQUIRE(greedy_text(open_model(folder.path()), 256) == text);
}

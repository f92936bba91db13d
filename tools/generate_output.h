#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "infer/generator.h"
#include "infer/load_model.h"
#include "infer/text_stream.h"
#include "tools/progress_line.h"

namespace flywheel {

// \n, \t and \\ to what they mean.
std::vector<std::string> unescaped(const std::vector<std::string>& texts);

// What `generate` prints: a single text as it comes, several one after the other in the order of
// the prompts, or JSON lines. Rates go to a terminal's standard error.
class GenerateOutput {
 public:
  // Error Config if a prompt has no tokens.
  GenerateOutput(const Tokenizer& tokenizer, const SpecialTokens& special,
                 std::vector<std::string> prompts, std::int64_t samples,
                 const std::vector<std::string>& stop_strings, bool json);

  const std::vector<GenerateRequest>& requests() const { return requests_; }
  std::vector<std::int64_t> prompt_lengths() const;

  void begin();
  bool add(std::size_t request, std::int32_t token);  // false: a stop string was found
  void finish(std::size_t request, const Continuation& continuation);
  void end();

 private:
  struct Text {
    std::size_t prompt = 0;
    std::int32_t last = 0;  // token
    TextStream stream;
    std::string text;
    std::string json;
    bool done = false;
  };
  void print_ready();
  std::string rate() const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> prompts_;
  std::vector<GenerateRequest> requests_;
  std::vector<Text> texts_;
  bool json_;
  bool streams_;
  std::size_t printed_ = 0;  // texts
  std::int64_t tokens_ = 0;
  ProgressLine progress_;
};

}  // namespace flywheel

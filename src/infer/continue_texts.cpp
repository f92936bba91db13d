#include "infer/continue_texts.h"

#include "data/utf8.h"
#include "infer/text_stream.h"

namespace flywheel {

std::string decode_after(const Tokenizer& tokenizer, std::int32_t previous,
                         std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> all{previous};
  all.insert(all.end(), tokens.begin(), tokens.end());
  return tokenizer.decode(all).substr(tokenizer.decode(std::span(&previous, 1)).size());
}

std::vector<std::string> continue_texts(Transformer& model, const TransformerLimits& limits,
                                        const Tokenizer& tokenizer,
                                        std::span<const std::string> texts,
                                        GenerateOptions options) {
  const std::int32_t end = tokenizer.end_of_document();
  options.stop_tokens.push_back(end);
  std::vector<GenerateRequest> requests;
  for (const std::string& text : texts) {
    GenerateRequest& request = requests.emplace_back();
    if (end >= 0) request.prompt.push_back(end);
    tokenizer.encode(text, request.prompt);
  }
  const auto continuations = generate(model, limits, requests, options);
  std::vector<std::string> results;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    results.push_back(replace_invalid_utf8(
        decode_after(tokenizer, requests[i].prompt.back(), continuations[i].tokens)));
  }
  return results;
}

std::vector<std::string> write_until(Transformer& model, const TransformerLimits& limits,
                                     const Tokenizer& tokenizer,
                                     std::span<const std::vector<std::int32_t>> prompts,
                                     std::span<const std::string> until,
                                     const GenerateOptions& options, const OnFinish& on_finish) {
  std::vector<GenerateRequest> requests;
  for (const std::vector<std::int32_t>& prompt : prompts) requests.push_back({.prompt = prompt});
  std::vector<TextStream> streams(prompts.size(), TextStream({until.begin(), until.end()}));
  std::vector<std::int32_t> previous(prompts.size(), -1);
  std::vector<std::string> results(prompts.size());
  const auto goes_on = [&](std::size_t i, std::int32_t token) {
    const std::span one(&token, 1);
    results[i] += streams[i].add(previous[i] < 0 ? tokenizer.decode(one)
                                                 : decode_after(tokenizer, previous[i], one));
    previous[i] = token;
    return !streams[i].stopped();
  };
  generate(model, limits, requests, options, goes_on, on_finish);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] += streams[i].finish();
  return results;
}

}  // namespace flywheel

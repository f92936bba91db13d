#include "tools/generate_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "data/utf8.h"
#include "infer/continue_texts.h"

namespace flywheel {
namespace {

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Tokens:
      return "length";
    case FinishReason::Context:
      return "context";
    case FinishReason::StopToken:
      return "end_of_text";
    case FinishReason::Caller:
      return "stop";
  }
  return "";
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::vector<std::string> unescaped(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) {
    std::string& out = result.emplace_back();
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
      const bool escape = next == 'n' || next == 't' || next == '\\';
      out += !escape ? text[i] : next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      if (escape) ++i;
    }
  }
  return result;
}

GenerateOutput::GenerateOutput(const Tokenizer& tokenizer, const SpecialTokens& special,
                               std::vector<std::string> prompts, std::int64_t samples,
                               const std::vector<std::string>& stop_strings, bool json)
    : tokenizer_(tokenizer), prompts_(std::move(prompts)), json_(json) {
  for (std::size_t p = 0; p < prompts_.size(); ++p) {
    GenerateRequest request;
    if (special.begin >= 0 && (special.begin_every_prompt || prompts_[p].empty())) {
      request.prompt.push_back(special.begin);
    }
    tokenizer.encode(prompts_[p], request.prompt);
    require(!request.prompt.empty(), ErrorKind::Config,
            "prompt {} is empty, and the tokenizer has no token that begins a text", p + 1);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      request.sample = static_cast<std::uint32_t>(sample);
      requests_.push_back(request);
      texts_.push_back(
          {.prompt = p, .last = request.prompt.back(), .stream = TextStream(stop_strings)});
    }
  }
  streams_ = !json_ && texts_.size() == 1;
}

std::vector<std::int64_t> GenerateOutput::prompt_lengths() const {
  std::vector<std::int64_t> lengths;
  for (const GenerateRequest& request : requests_) lengths.push_back(std::ssize(request.prompt));
  return lengths;
}

void GenerateOutput::begin() {
  if (streams_) print(prompts_[0]);
  progress_ = {};  // loading does not count
}

bool GenerateOutput::add(std::size_t request, std::int32_t token) {
  Text& text = texts_[request];
  ++tokens_;
  const std::string more =
      text.stream.add(decode_after(tokenizer_, text.last, std::span(&token, 1)));
  text.last = token;
  text.text += more;
  if (streams_) {
    print(more);
  } else {
    progress_.show([&] { return rate(); });
  }
  return !text.stream.stopped();
}

void GenerateOutput::finish(std::size_t request, const Continuation& continuation) {
  Text& text = texts_[request];
  const std::string rest = text.stream.finish();
  text.text += rest;
  text.done = true;
  if (streams_) return print(rest + "\n");
  const bool stopped = text.stream.stopped();
  if (json_) {
    const nlohmann::ordered_json line{
        {"prompt", replace_invalid_utf8(prompts_[text.prompt])},
        {"sample", requests_[request].sample},
        {"text", text.text},
        {"finish_reason", stopped ? "stop" : reason_name(continuation.reason)},
        {"prompt_tokens", requests_[request].prompt.size()},
        {"tokens", continuation.tokens}};
    text.json = line.dump();
  }
  print_ready();
}

void GenerateOutput::print_ready() {
  for (; printed_ < texts_.size() && texts_[printed_].done; ++printed_) {
    const Text& text = texts_[printed_];
    progress_.clear();
    if (json_) {
      print(text.json + "\n");
    } else {
      print(fmt::format("--- prompt {}, sample {}\n{}{}\n", text.prompt + 1,
                        requests_[printed_].sample + 1, prompts_[text.prompt], text.text));
    }
  }
}

std::string GenerateOutput::rate() const {
  return fmt::format("{}/{} texts  {} tokens  {:.1f} tokens/s", printed_, texts_.size(), tokens_,
                     static_cast<double>(tokens_) / std::max(1e-9, progress_.seconds()));
}

void GenerateOutput::end() {
  progress_.clear();
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "{}\n", rate());
}

}  // namespace flywheel

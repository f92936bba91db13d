#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/regex.h"

#include <pcre2.h>

#include <utility>

#include "core/error.h"
#include "data/regex_syntax.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

constexpr std::size_t kMaxPatternBytes = 65536;
constexpr std::uint32_t kMatchLimit = 2'000'000;
constexpr std::uint32_t kHeapLimitKiB = 256 * 1024;
constexpr std::size_t kJitStackBytes = 1 << 20;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using Handle = std::unique_ptr<T, Deleter<Free>>;

// What a match needs to write to, one for each thread.
struct MatchScratch {
  Handle<pcre2_match_data, pcre2_match_data_free> data{pcre2_match_data_create(1, nullptr)};
  Handle<pcre2_match_context, pcre2_match_context_free> context{
      pcre2_match_context_create(nullptr)};
  Handle<pcre2_jit_stack, pcre2_jit_stack_free> stack{
      pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)};

  MatchScratch() {
    require(data && context && stack, ErrorKind::Internal, "PCRE2 is out of memory");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

MatchScratch& match_scratch() {
  thread_local MatchScratch scratch;
  return scratch;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[160];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  Handle<pcre2_code, pcre2_code_free> compiled;
};

Regex::Regex(std::string_view pattern, std::string where) : where_(std::move(where)) {
  require(pattern.size() <= kMaxPatternBytes, ErrorKind::Data,
          "{}: the pattern has {} bytes; at most {} are supported", where_, pattern.size(),
          kMaxPatternBytes);
  const std::string translated = pcre2_pattern(pattern, where_);
  const Handle<pcre2_compile_context, pcre2_compile_context_free> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context.get());
  require(compiled != nullptr, ErrorKind::Data, "{}: the pattern '{}' is not understood: {}",
          where_, pattern.substr(0, 200), pcre2_message(error));
  code_ = std::make_unique<Code>();
  code_->compiled.reset(compiled);
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without JIT the interpreter does the same
}

Regex Regex::literal(std::string_view text, std::string where) {
  return Regex(escaped_pattern(text), std::move(where));
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::next(Search& search) const {
  while (search.from <= search.text.size()) {
    const std::optional<Match> match = find(search.text, search.from);
    if (!match) return std::nullopt;
    const bool repeats = match->begin == match->end && search.last_end == match->end;
    if (!repeats) {
      search.from = match->end;
      search.last_end = match->end;
      return match;
    }
    if (search.from == search.text.size()) return std::nullopt;
    search.from += static_cast<std::size_t>(decode_utf8(search.text.data() + search.from).length);
  }
  return std::nullopt;
}

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from) const {
  MatchScratch& scratch = match_scratch();
  const int result =
      pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  from, PCRE2_NO_UTF_CHECK, scratch.data.get(), scratch.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  require(result >= 0, ErrorKind::Data, "{}: the pattern fails on a text of {} bytes: {}", where_,
          text.size(), pcre2_message(result));
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(scratch.data.get());
  return Match{bounds[0], bounds[1]};
}

}  // namespace flywheel

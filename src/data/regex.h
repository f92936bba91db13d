#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace flywheel {

// A pattern of a tokenizer.json over well-formed UTF-8, matched by PCRE2 with JIT. Patterns are in
// Oniguruma's dialect, that of the reference library; regex_syntax.h tells what is understood. Safe
// for concurrent use.
class Regex {
 public:
  // `where` names file and key in errors. Error Data: a pattern that cannot be compiled.
  Regex(std::string_view pattern, std::string where);
  // Matches exactly `text`.
  static Regex literal(std::string_view text, std::string where);
  ~Regex();
  Regex(Regex&&) noexcept;

  // visit(begin, end, is_match) for the matches and the gaps between them, in order; together they
  // cover the text. An empty match directly after the match before it does not count. Error Data:
  // the pattern needs too much time or memory for this text.
  template <class Visit>
  void for_each_segment(std::string_view text, Visit&& visit) const {
    std::size_t covered = 0;
    Search search{text, 0, std::nullopt};
    while (const std::optional<Match> match = next(search)) {
      if (covered < match->begin) visit(covered, match->begin, false);
      visit(match->begin, match->end, true);
      covered = match->end;
    }
    if (covered < text.size()) visit(covered, text.size(), false);
  }

 private:
  struct Match {
    std::size_t begin, end;
  };
  struct Search {
    std::string_view text;
    std::size_t from;
    std::optional<std::size_t> last_end;
  };
  struct Code;
  std::optional<Match> next(Search& search) const;
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  std::unique_ptr<Code> code_;
  std::string where_;
};

}  // namespace flywheel

#pragma once

#include <string>
#include <string_view>

namespace flywheel {

// Rewrites a pattern from Oniguruma's dialect (Ruby syntax, Unicode) to PCRE2's where they differ:
// \s is the property White_Space, \w is Alphabetic, M*, Nd and Pc, \h a hexadecimal digit, \v a
// vertical tab, (?m) "dot matches all". `where` names file and key in errors. Error Data, by name:
// POSIX brackets, nested and intersected classes, {n,m}+, {n}?, (?i) inside the pattern, verbs, and
// escapes with another meaning.
std::string pcre2_pattern(std::string_view oniguruma_pattern, const std::string& where);

// A pattern that matches exactly `text`.
std::string escaped_pattern(std::string_view text);

}  // namespace flywheel

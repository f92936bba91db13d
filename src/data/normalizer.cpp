#include "data/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/error.h"
#include "data/char_class.h"
#include "data/regex.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

constexpr int kCodePoints = 0x110000;

// Replacements may not blow a text up beyond this.
constexpr std::size_t kMaxGrowth = 16;
constexpr std::size_t kMaxGrowthBytes = 1 << 20;

std::string to_form(std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  require(size >= 0, ErrorKind::Data, "a text of {} bytes cannot be normalized: {}", text.size(),
          utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
}

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);

// Marks that came after Unicode 9, up to 14. The reference library's normalization does not know
// them: it neither moves nor composes them, and no mark passes them.
// tests/oracle/compare_tokenizers finds the difference.
constexpr CodePointRange kMarksAfterUnicode9[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x16FF0, 0x16FF1}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}};

bool came_after_unicode_9(char32_t mark) {
  const auto c = static_cast<std::int32_t>(mark);
  return std::any_of(std::begin(kMarksAfterUnicode9), std::end(kMarksAfterUnicode9),
                     [c](const CodePointRange& r) { return r.first <= c && c <= r.last; });
}

// Which characters NFC leaves alone whatever stands before them: those that are their own NFC, have
// combining class 0 and are nowhere the second part of a canonical composition; and newer marks.
std::vector<bool> make_nfc_boundaries() {
  std::vector<bool> boundary(kCodePoints, true);
  for (int c = 0x80; c < kCodePoints; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    if (utf8proc_get_property(c)->combining_class != 0)
      boundary[static_cast<std::size_t>(c)] = false;
    std::array<utf8proc_int32_t, 32> parts{};
    int last_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), kDecompose, &last_class);
    if (count == 1 && parts[0] == c) continue;
    for (utf8proc_ssize_t i = 1; i < count; ++i) {
      boundary[static_cast<std::size_t>(parts[static_cast<std::size_t>(i)])] = false;
    }
    std::string character;
    append_utf8(character, static_cast<char32_t>(c));
    if (to_form(character, kCompose) != character) boundary[static_cast<std::size_t>(c)] = false;
  }
  for (const CodePointRange& range : kMarksAfterUnicode9) {
    for (auto c = range.first; c <= range.last; ++c) boundary[static_cast<std::size_t>(c)] = true;
  }
  return boundary;
}

const std::vector<bool>& nfc_boundaries() {
  static const std::vector<bool> boundaries = make_nfc_boundaries();
  return boundaries;
}

class Nfc : public Normalizer {
 public:
  bool apply(std::string_view text, std::string& result) const override {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const char* copied = begin;  // text before this is in `result`
    const char* last = begin;    // the boundary before p
    for (const char* p = begin; p < end;) {
      const DecodedChar c = decode_utf8(p);
      if (is_boundary(c.code_point)) {
        last = p;
        p += c.length;
        continue;
      }
      if (came_after_unicode_9(decode_utf8(last).code_point)) last = p;
      const char* const stop = next_boundary(p, end);
      if (copied == begin) result.clear();
      result.append(copied, last);
      result += to_form({last, static_cast<std::size_t>(stop - last)}, kCompose);
      copied = last = p = stop;
    }
    if (copied == begin) return false;
    result.append(copied, end);
    return true;
  }

  std::string description() const override { return "nfc"; }

 private:
  bool is_boundary(char32_t code_point) const { return code_point < 0x80 || boundary_[code_point]; }

  const char* next_boundary(const char* p, const char* end) const {
    while (p < end) {
      const DecodedChar c = decode_utf8(p);
      if (is_boundary(c.code_point)) break;
      p += c.length;
    }
    return p;
  }

  const std::vector<bool>& boundary_ = nfc_boundaries();
};

class OtherForm : public Normalizer {
 public:
  OtherForm(std::string name, int options)
      : name_(std::move(name)),
        options_(static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options)) {}
  bool apply(std::string_view text, std::string& result) const override {
    result = to_form(text, options_);
    return true;
  }
  std::string description() const override { return name_; }

 private:
  std::string name_;
  utf8proc_option_t options_;
};

class Lowercase : public Normalizer {
 public:
  bool apply(std::string_view text, std::string& result) const override {
    constexpr char32_t kCapitalIWithDot = 0x130;  // the one whose lower case is two characters
    std::string lower;
    for (std::size_t at = 0; at < text.size();) {
      const DecodedChar c = decode_utf8(text.data() + at);
      if (c.code_point == kCapitalIWithDot) {
        lower += "i\u0307";
      } else {
        append_utf8(lower, static_cast<char32_t>(
                               utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code_point))));
      }
      at += static_cast<std::size_t>(c.length);
    }
    result = std::move(lower);
    return true;
  }
  std::string description() const override { return "lowercase"; }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  bool apply(std::string_view text, std::string& result) const override {
    const std::uint8_t* const classes = char_classes();
    const char* begin = text.data();
    const char* end = begin + text.size();
    while (left_ && begin < end) {
      const DecodedChar c = decode_utf8(begin);
      if ((classes[c.code_point] & kSpace) == 0) break;
      begin += c.length;
    }
    while (right_ && begin < end) {
      const DecodedChar c = decode_utf8_before(end);
      if ((classes[c.code_point] & kSpace) == 0) break;
      end -= c.length;
    }
    if (static_cast<std::size_t>(end - begin) == text.size()) return false;
    result = std::string(begin, end);
    return true;
  }

  std::string description() const override { return fmt::format("strip({},{})", left_, right_); }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool apply(std::string_view text, std::string& result) const override {
    if (text.empty()) return false;
    result = std::string(prefix_).append(text);
    return true;
  }
  std::string description() const override { return fmt::format("prepend({})", prefix_); }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Regex regex, std::string pattern, std::string content)
      : regex_(std::move(regex)), pattern_(std::move(pattern)), content_(std::move(content)) {}

  bool apply(std::string_view text, std::string& result) const override {
    std::string replaced;
    regex_.for_each_segment(text, [&](std::size_t begin, std::size_t end, bool is_match) {
      replaced.append(is_match ? content_ : text.substr(begin, end - begin));
    });
    require(replaced.size() <= kMaxGrowth * text.size() + kMaxGrowthBytes, ErrorKind::Data,
            "a text of {} bytes grows to {} by replacing '{}'", text.size(), replaced.size(),
            pattern_.substr(0, 100));
    result = std::move(replaced);
    return true;
  }

  std::string description() const override {
    return fmt::format("replace({},{})", pattern_, content_);
  }

 private:
  Regex regex_;
  std::string pattern_;
  std::string content_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

  bool apply(std::string_view text, std::string& result) const override {
    std::string current;
    bool changed = false;
    for (const NormalizerPtr& step : steps_) {
      std::string next;
      if (!step->apply(changed ? std::string_view(current) : text, next)) continue;
      current = std::move(next);
      changed = true;
    }
    if (changed) result = std::move(current);
    return changed;
  }

  std::string description() const override {
    std::string text;
    for (const NormalizerPtr& step : steps_) text += step->description() + ";";
    return text;
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

}  // namespace

NormalizerPtr make_unicode_form(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::Nfc:
      return std::make_unique<Nfc>();
    case UnicodeForm::Nfd:
      return std::make_unique<OtherForm>("nfd", UTF8PROC_DECOMPOSE);
    case UnicodeForm::Nfkc:
      return std::make_unique<OtherForm>("nfkc", UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::Nfkd:
      return std::make_unique<OtherForm>("nfkd", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  fail(ErrorKind::Internal, "no such normalization form");
}

NormalizerPtr make_lowercase() {
  return std::make_unique<Lowercase>();
}

NormalizerPtr make_strip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}

NormalizerPtr make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

NormalizerPtr make_replace(std::string_view pattern, bool is_regex, std::string content,
                           const std::string& where) {
  return std::make_unique<Replace>(
      is_regex ? Regex(pattern, where) : Regex::literal(pattern, where),
      fmt::format("{},{}", is_regex, pattern), std::move(content));
}

NormalizerPtr make_normalizer_sequence(std::vector<NormalizerPtr> steps) {
  if (steps.size() == 1) return std::move(steps.front());
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace flywheel

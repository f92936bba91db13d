#include "data/byte_level.h"

#include "data/utf8.h"

namespace flywheel {

namespace {

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    letters[static_cast<std::size_t>(byte)] =
        stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return letters;
}

constexpr char32_t kLetterLimit = 0x100 + 68;

std::array<int, kLetterLimit> make_bytes() {
  std::array<int, kLetterLimit> bytes;
  bytes.fill(-1);
  const std::array<char32_t, 256> letters = make_letters();
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[letters[byte]] = static_cast<int>(byte);
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() {
  static const std::array<std::string, 256> alphabet = [] {
    std::array<std::string, 256> result;
    const std::array<char32_t, 256> letters = make_letters();
    for (std::size_t byte = 0; byte < 256; ++byte) append_utf8(result[byte], letters[byte]);
    return result;
  }();
  return alphabet;
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  static const std::array<int, kLetterLimit> bytes = make_bytes();
  std::string result;
  for (const char *p = token.data(), *end = p + token.size(); p < end;) {
    const DecodedChar c = decode_utf8(p);
    if (c.code_point >= kLetterLimit || bytes[c.code_point] < 0) return std::nullopt;
    result.push_back(static_cast<char>(bytes[c.code_point]));
    p += c.length;
  }
  return result;
}

}  // namespace flywheel

#pragma once

#include <string_view>

namespace flywheel {

// The split patterns of GPT-2, of Qwen2 and Qwen3, and of Llama-3.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The end of the match that begins at `begin` in well-formed UTF-8 (begin < end). These patterns
// match everywhere, so that the matches cover the text.
using Scanner = const char* (*)(const char* begin, const char* end, const unsigned char* classes);

// The hand-written equivalent of a pattern; null when there is none.
Scanner scanner_for(std::string_view pattern);

}  // namespace flywheel

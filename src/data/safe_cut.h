#pragma once

#include <cstddef>
#include <string_view>

namespace flywheel {

// The last place in (begin, text.size()) at which text can be cut so that a byte-level BPE
// tokenizer gives the two parts the ids of the whole; 0 if there is none. Such places are
//   - before a space that follows an ASCII letter,
//   - after a single newline between characters that are not white space, where a letter, a digit
//   or a character
//     outside of ASCII follows.
// The split patterns of GPT-2, Llama 3, Qwen, SmolLM2 and o200k end a pre-token at both, whatever
// comes next, and NFC composes nothing across them. docs/formats.md has the argument and its
// limits.
std::size_t find_safe_cut(std::string_view text, std::size_t begin);

// The last place in (0, text.size()) at which a UTF-8 character begins; text.size() if there is
// none.
std::size_t last_character(std::string_view text);

}  // namespace flywheel

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace flywheel {

// The printable alphabet in which byte-level BPE writes its tokens (GPT-2, Radford et al. 2019):
// bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves, the other 68 in increasing order
// for U+0100, U+0101, ...
const std::array<std::string, 256>& byte_alphabet();  // each byte's letter in UTF-8

// The bytes that a token spells; nothing when a character lies outside the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace flywheel

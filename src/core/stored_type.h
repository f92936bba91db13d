#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace flywheel {

// How the elements of a tensor in a file are written. The quantised ones are ggml's: blocks of 32
// consecutive elements with a scale of their own, or of 256 (k_quants.h).
enum class StoredType : std::uint8_t {
  F32,
  F16,
  BF16,
  F64,
  Q8_0,
  Q4_0,
  Q4_1,
  Q4_K,
  Q5_K,
  Q6_K,
  Unsupported
};
inline constexpr const char* kStoredTypes =
    "F32, F16, BF16, F64, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K and Q6_K";

struct BlockSize {
  std::int64_t elements;
  std::int64_t bytes;
};
BlockSize block_of(StoredType type);  // {1, bytes of an element} of the plain types

std::string_view name_of(StoredType type);      // "F32", "Q8_0", ...
StoredType stored_type(std::string_view name);  // Unsupported where the name is none of these

// Whole blocks as float32: out.size() elements from `blocks`, of any alignment. Q8_0 w = d q; Q4_0
// w = d (q - 8); Q4_1 w = d q + m; the products are exact in float32, so that the bits are those of
// any other reader.
void to_floats(StoredType type, const std::byte* blocks, std::span<float> out);

// The nearest that F32, F16, BF16 or Q8_0 can hold; whole blocks. Q8_0: d = max |w| / 127, q = w /
// d rounded, as ggml does.
void from_floats(StoredType type, std::span<const float> values, std::byte* blocks);

}  // namespace flywheel

#pragma once

#include <cstddef>
#include <span>

namespace flywheel {

// ggml's K-quants: blocks of 256 elements. One of Q4_K and Q5_K (144 and 176 bytes) is 8 parts of
// 32 elements, each with a scale and a minimum of 6 bits: w = d s q - d_min m. One of Q6_K (210
// bytes) is 16 parts of 16 elements, each with a scale of 8 bits: w = d s (q - 32). In float32 only
// the subtraction rounds.
inline constexpr std::size_t kKBlock = 256;

void read_q4_k(const std::byte* block, std::span<float, kKBlock> out);
void read_q5_k(const std::byte* block, std::span<float, kKBlock> out);
void read_q6_k(const std::byte* block, std::span<float, kKBlock> out);

}  // namespace flywheel

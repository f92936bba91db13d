#include "core/k_quants.h"

#include <cstdint>
#include <cstring>

#include "core/float16.h"

namespace flywheel {
namespace {

constexpr std::size_t kPart = 32;  // elements of Q4_K and Q5_K with a scale of their own

unsigned byte_at(const std::byte* bytes, std::size_t index) {
  return static_cast<unsigned>(bytes[index]);
}

float half_at(const std::byte* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof(half));
  return half_to_float(half);
}

// Of Q4_K and Q5_K: d, d_min, then 8 scales and 8 minima in 12 bytes. Those of parts 0 to 3 are the
// low six bits of bytes 0 to 3 and 4 to 7; of parts 4 to 7 the low four bits are the halves of
// bytes 8 to 11 and the high two those of bytes 0 to 3 and 4 to 7.
struct PartScale {
  float scale;
  float minimum;
};

PartScale part_scale(const std::byte* block, std::size_t part) {
  const std::byte* const packed = block + 4;
  unsigned scale = byte_at(packed, part % 4);
  unsigned minimum = byte_at(packed, 4 + part % 4);
  if (part < 4) {
    scale &= 63U;
    minimum &= 63U;
  } else {
    const unsigned halves = byte_at(packed, 4 + part);
    scale = (halves & 15U) | ((scale >> 6) << 4);
    minimum = (halves >> 4) | ((minimum >> 6) << 4);
  }
  return {half_at(block) * static_cast<float>(scale),
          half_at(block + 2) * static_cast<float>(minimum)};
}

// Parts 2 k and 2 k + 1 are the low and the high halves of 32 bytes. `high_bit(part, i)`: 0 or 16.
template <class HighBit>
void read_parts(const std::byte* block, const std::byte* halves, std::span<float, kKBlock> out,
                const HighBit& high_bit) {
  for (std::size_t part = 0; part < kKBlock / kPart; ++part) {
    const PartScale part_of = part_scale(block, part);
    const std::byte* const bytes = halves + part / 2 * kPart;
    for (std::size_t i = 0; i < kPart; ++i) {
      const unsigned low = (byte_at(bytes, i) >> (part % 2 * 4)) & 15U;
      const auto quant = static_cast<float>(low + high_bit(part, i));
      out[part * kPart + i] = part_of.scale * quant - part_of.minimum;
    }
  }
}

}  // namespace

void read_q4_k(const std::byte* block, std::span<float, kKBlock> out) {
  read_parts(block, block + 16, out, [](std::size_t, std::size_t) { return 0U; });
}

void read_q5_k(const std::byte* block, std::span<float, kKBlock> out) {
  read_parts(block, block + 48, out, [block](std::size_t part, std::size_t i) {
    return ((byte_at(block + 16, i) >> part) & 1U) << 4;
  });
}

// 128 bytes of low halves, 64 of high pairs of bits, 16 scales, d. Of 128 elements, 32 at a time
// have the low halves of the first and second 32 bytes, then the high halves of both, and pairs of
// bits from the lowest on.
void read_q6_k(const std::byte* block, std::span<float, kKBlock> out) {
  const std::byte* const scales = block + 192;
  const float d = half_at(block + 208);
  for (std::size_t i = 0; i < kKBlock; ++i) {
    const std::size_t half = i / 128;
    const std::size_t quarter = i % 128 / 32;
    const std::size_t column = i % 32;
    const unsigned low = byte_at(block, half * 64 + quarter % 2 * 32 + column) >> (quarter / 2 * 4);
    const unsigned high = byte_at(block + 128, half * 32 + column) >> (quarter * 2);
    const int quant = static_cast<int>((low & 15U) | ((high & 3U) << 4)) - 32;
    const auto scale = static_cast<float>(static_cast<std::int8_t>(scales[i / 16]));
    out[i] = d * scale * static_cast<float>(quant);
  }
}

}  // namespace flywheel

#include "core/stored_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/error.h"
#include "core/float16.h"
#include "core/k_quants.h"

namespace flywheel {
namespace {

constexpr std::size_t kBlock = 32;

struct TypeRow {
  StoredType type;
  std::string_view name;
  BlockSize block;
};
constexpr TypeRow kTypes[] = {
    {StoredType::F32, "F32", {1, 4}},       {StoredType::F16, "F16", {1, 2}},
    {StoredType::BF16, "BF16", {1, 2}},     {StoredType::F64, "F64", {1, 8}},
    {StoredType::Q8_0, "Q8_0", {32, 34}},   {StoredType::Q4_0, "Q4_0", {32, 18}},
    {StoredType::Q4_1, "Q4_1", {32, 20}},   {StoredType::Q4_K, "Q4_K", {256, 144}},
    {StoredType::Q5_K, "Q5_K", {256, 176}}, {StoredType::Q6_K, "Q6_K", {256, 210}},
};

template <class Value>
Value load(const std::byte* source) {
  Value value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

template <class Stored, class Convert>
void convert_elements(const std::byte* source, std::span<float> out, const Convert& convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = convert(load<Stored>(source + i * sizeof(Stored)));
  }
}

void read_q8_0(const std::byte* block, std::span<float, kBlock> out) {
  const float scale = half_to_float(load<std::uint16_t>(block));
  for (std::size_t i = 0; i < kBlock; ++i) {
    out[i] = scale * static_cast<float>(load<std::int8_t>(block + 2 + i));
  }
}

// Elements 0..15 are the low halves of the bytes, 16..31 the high ones.
template <class Convert>
void read_nibbles(const std::byte* bytes, std::span<float, kBlock> out, const Convert& convert) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const auto byte = static_cast<unsigned>(bytes[i]);
    out[i] = convert(static_cast<int>(byte & 15U));
    out[i + kBlock / 2] = convert(static_cast<int>(byte >> 4));
  }
}

void read_q4_0(const std::byte* block, std::span<float, kBlock> out) {
  const float scale = half_to_float(load<std::uint16_t>(block));
  read_nibbles(block + 2, out, [&](int q) { return scale * static_cast<float>(q - 8); });
}

void read_q4_1(const std::byte* block, std::span<float, kBlock> out) {
  const float scale = half_to_float(load<std::uint16_t>(block));
  const float minimum = half_to_float(load<std::uint16_t>(block + 2));
  read_nibbles(block + 4, out, [&](int q) { return scale * static_cast<float>(q) + minimum; });
}

void write_q8_0(std::span<const float, kBlock> values, std::byte* block) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127;
  const float inverse = scale > 0 ? 1 / scale : 0;
  const std::uint16_t half = float_to_half(scale);
  std::memcpy(block, &half, sizeof(half));
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto quant = static_cast<std::int8_t>(std::round(values[i] * inverse));
    std::memcpy(block + sizeof(half) + i, &quant, 1);
  }
}

template <class Convert>
void write_halves(std::span<const float> values, std::byte* out, const Convert& convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = convert(values[i]);
    std::memcpy(out + i * sizeof(half), &half, sizeof(half));
  }
}

template <std::size_t kElements>
void convert_blocks(StoredType type, const std::byte* blocks, std::span<float> out,
                    void (*read)(const std::byte*, std::span<float, kElements>)) {
  const auto bytes = static_cast<std::size_t>(block_of(type).bytes);
  for (std::size_t i = 0; i < out.size() / kElements; ++i) {
    read(blocks + i * bytes, out.subspan(i * kElements).template first<kElements>());
  }
}

}  // namespace

BlockSize block_of(StoredType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.block;
  }
  return {1, 0};
}

std::string_view name_of(StoredType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  return "unsupported";
}

StoredType stored_type(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return StoredType::Unsupported;
}

void to_floats(StoredType type, const std::byte* blocks, std::span<float> out) {
  require(static_cast<std::int64_t>(out.size()) % block_of(type).elements == 0, ErrorKind::Internal,
          "{} elements are not whole blocks of {}", out.size(), name_of(type));
  switch (type) {
    case StoredType::F32:
      if (!out.empty()) std::memcpy(out.data(), blocks, out.size_bytes());
      return;
    case StoredType::F16:
      return convert_elements<std::uint16_t>(blocks, out, half_to_float);
    case StoredType::BF16:
      return convert_elements<std::uint16_t>(blocks, out, bf16_to_float);
    case StoredType::F64:
      return convert_elements<double>(blocks, out, [](double x) { return static_cast<float>(x); });
    case StoredType::Q8_0:
      return convert_blocks(type, blocks, out, read_q8_0);
    case StoredType::Q4_0:
      return convert_blocks(type, blocks, out, read_q4_0);
    case StoredType::Q4_1:
      return convert_blocks(type, blocks, out, read_q4_1);
    case StoredType::Q4_K:
      return convert_blocks(type, blocks, out, read_q4_k);
    case StoredType::Q5_K:
      return convert_blocks(type, blocks, out, read_q5_k);
    case StoredType::Q6_K:
      return convert_blocks(type, blocks, out, read_q6_k);
    case StoredType::Unsupported:
      break;
  }
  fail(ErrorKind::Internal, "elements of an unsupported type cannot be read");
}

void from_floats(StoredType type, std::span<const float> values, std::byte* blocks) {
  require(static_cast<std::int64_t>(values.size()) % block_of(type).elements == 0,
          ErrorKind::Internal, "{} elements are not whole blocks of {}", values.size(),
          name_of(type));
  switch (type) {
    case StoredType::F32:
      if (!values.empty()) std::memcpy(blocks, values.data(), values.size_bytes());
      return;
    case StoredType::F16:
      return write_halves(values, blocks, float_to_half);
    case StoredType::BF16:
      return write_halves(values, blocks, float_to_bf16);
    case StoredType::Q8_0:
      for (std::size_t i = 0; i < values.size(); i += kBlock) {
        write_q8_0(values.subspan(i).first<kBlock>(), blocks);
        blocks += block_of(type).bytes;
      }
      return;
    default:
      fail(ErrorKind::Internal, "floats are not written as {}", name_of(type));
  }
}

}  // namespace flywheel

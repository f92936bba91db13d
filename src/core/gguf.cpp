#include "core/gguf.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace flywheel {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxRank = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

// Types of metadata.
enum : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Takes values from the start of the file; counts what it took.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  template <class Value>
  Value take() {
    Value value;
    std::memcpy(&value, take_bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::span<const std::byte> take_bytes(std::uint64_t count) {
    require(count <= left(), ErrorKind::Data, "{}: cut off at byte {}; not a whole GGUF file",
            source_, position_);
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += static_cast<std::size_t>(count);
    return taken;
  }
  std::string_view take_text() {
    const auto bytes = take_bytes(take<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A count of things that take at least `bytes` each.
  std::uint64_t take_count(std::uint64_t bytes) {
    const auto count = take<std::uint64_t>();
    require(count <= left() / bytes, ErrorKind::Data,
            "{}: {} entries do not fit into the {} bytes behind byte {}", source_, count, left(),
            position_);
    return count;
  }
  std::size_t position() const { return position_; }
  std::uint64_t left() const { return bytes_.size() - position_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& source_;
  std::size_t position_ = 0;
};

std::uint64_t bytes_of_type(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 0;
  }
}

GgufValue take_scalar(Cursor& cursor, std::uint32_t type) {
  switch (type) {
    case kU8:
      return std::int64_t{cursor.take<std::uint8_t>()};
    case kI8:
      return std::int64_t{cursor.take<std::int8_t>()};
    case kU16:
      return std::int64_t{cursor.take<std::uint16_t>()};
    case kI16:
      return std::int64_t{cursor.take<std::int16_t>()};
    case kU32:
      return std::int64_t{cursor.take<std::uint32_t>()};
    case kI32:
      return std::int64_t{cursor.take<std::int32_t>()};
    case kF32:
      return double{cursor.take<float>()};
    case kBool:
      return cursor.take<std::uint8_t>() != 0;
    case kU64:
      return static_cast<std::int64_t>(
          std::min<std::uint64_t>(cursor.take<std::uint64_t>(), INT64_MAX));
    case kI64:
      return cursor.take<std::int64_t>();
    default:
      return cursor.take<double>();
  }
}

GgufArray take_array(Cursor& cursor, std::span<const std::byte> file, const std::string& source,
                     std::string_view key) {
  GgufArray array{.type = cursor.take<std::uint32_t>(), .count = 0, .bytes = {}};
  const std::uint64_t size = array.type == kString ? 8 : bytes_of_type(array.type);
  require(size > 0, ErrorKind::Data, "{}: {}: lists of type {} are not supported", source, key,
          array.type);
  array.count = cursor.take_count(size);
  const std::size_t begin = cursor.position();
  if (array.type == kString) {
    for (std::uint64_t i = 0; i < array.count; ++i) cursor.take_text();
  } else {
    cursor.take_bytes(array.count * size);
  }
  array.bytes = file.subspan(begin, cursor.position() - begin);
  return array;
}

GgufValue take_value(Cursor& cursor, std::span<const std::byte> file, const std::string& source,
                     std::string_view key) {
  const auto type = cursor.take<std::uint32_t>();
  if (type == kString) return cursor.take_text();
  if (type == kArray) return take_array(cursor, file, source, key);
  require(bytes_of_type(type) > 0, ErrorKind::Data, "{}: {}: type {} is none that is known", source,
          key, type);
  return take_scalar(cursor, type);
}

// ggml's numbers of tensor types.
std::string tensor_type_name(std::uint32_t type) {
  static constexpr std::string_view kNames[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",  "type 4", "type 5", "Q5_0",  "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",   "Q6_K",  "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",  "IQ2_S", "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M",  "BF16"};
  return type < std::size(kNames) ? std::string(kNames[type]) : fmt::format("type {}", type);
}

struct PlacedTensor {
  GgufTensor tensor;
  std::uint64_t offset = 0;
};

PlacedTensor take_tensor(Cursor& cursor, const std::string& source) {
  PlacedTensor placed;
  GgufTensor& tensor = placed.tensor;
  tensor.name = cursor.take_text();
  const auto rank = cursor.take<std::uint32_t>();
  require(rank >= 1 && rank <= kMaxRank, ErrorKind::Data,
          "{}: tensor '{}' has {} dimensions; expected 1 to {}", source, tensor.name, rank,
          kMaxRank);
  std::int64_t elements = 1;
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    const auto extent = cursor.take<std::uint64_t>();
    require(extent >= 1 && extent <= static_cast<std::uint64_t>(kMaxElements / elements),
            ErrorKind::Data, "{}: tensor '{}' has the impossible size {}", source, tensor.name,
            extent);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
    elements *= static_cast<std::int64_t>(extent);
  }
  tensor.type_name = tensor_type_name(cursor.take<std::uint32_t>());
  tensor.type = stored_type(tensor.type_name);
  placed.offset = cursor.take<std::uint64_t>();
  return placed;
}

void point_to_bytes(PlacedTensor& placed, std::span<const std::byte> data,
                    const std::string& source) {
  GgufTensor& tensor = placed.tensor;
  if (tensor.type == StoredType::Unsupported) return;
  const BlockSize block = block_of(tensor.type);
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= extent;
  require(tensor.shape.back() % block.elements == 0, ErrorKind::Data,
          "{}: tensor '{}' has rows of {} elements, which are no whole blocks of {}", source,
          tensor.name, tensor.shape.back(), tensor.type_name);
  const auto bytes = static_cast<std::uint64_t>(elements / block.elements * block.bytes);
  require(placed.offset <= data.size() && bytes <= data.size() - placed.offset, ErrorKind::Data,
          "{}: tensor '{}' needs the bytes {} to {} of {} bytes of data; cut off", source,
          tensor.name, placed.offset, placed.offset + bytes, data.size());
  tensor.bytes =
      data.subspan(static_cast<std::size_t>(placed.offset), static_cast<std::size_t>(bytes));
}

}  // namespace

Gguf::Gguf(std::span<const std::byte> file, std::string source) : source_(std::move(source)) {
  Cursor cursor(file, source_);
  const auto magic = cursor.take_bytes(kMagic.size());
  require(std::memcmp(magic.data(), kMagic.data(), kMagic.size()) == 0, ErrorKind::Data,
          "{}: does not begin with GGUF", source_);
  const auto version = cursor.take<std::uint32_t>();
  require(version == 2 || version == 3, ErrorKind::Data,
          "{}: GGUF version {} is not supported; expected 2 or 3", source_, version);
  const std::uint64_t tensor_count = cursor.take_count(24);
  const std::uint64_t value_count = cursor.take_count(13);
  for (std::uint64_t i = 0; i < value_count; ++i) {
    const std::string key(cursor.take_text());
    const bool is_new = metadata_.emplace(key, take_value(cursor, file, source_, key)).second;
    require(is_new, ErrorKind::Data, "{}: the key '{}' appears twice", source_, key);
  }
  std::vector<PlacedTensor> placed;
  for (std::uint64_t i = 0; i < tensor_count; ++i) placed.push_back(take_tensor(cursor, source_));
  const std::int64_t alignment = integer_or("general.alignment", 32);
  require(alignment >= 1 && alignment <= (1 << 20), ErrorKind::Data,
          "{}: general.alignment: {} is not supported", source_, alignment);
  const auto step = static_cast<std::size_t>(alignment);
  const std::size_t begin = std::min((cursor.position() + step - 1) / step * step, file.size());
  for (PlacedTensor& tensor : placed) {
    point_to_bytes(tensor, file.subspan(begin), source_);
    tensors_.push_back(std::move(tensor.tensor));
  }
}

const GgufTensor* Gguf::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

const GgufValue& Gguf::at(std::string_view key) const {
  const auto found = metadata_.find(key);
  require(found != metadata_.end(), ErrorKind::Data, "{}: the key '{}' is missing", source_, key);
  return found->second;
}

void Gguf::refuse(std::string_view key, std::string_view expected) const {
  fail(ErrorKind::Data, "{}: {}: expected {}", source_, key, expected);
}

std::int64_t Gguf::integer(std::string_view key) const {
  const auto* value = std::get_if<std::int64_t>(&at(key));
  if (value == nullptr) refuse(key, "a whole number");
  return *value;
}

std::int64_t Gguf::integer_or(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double Gguf::number(std::string_view key) const {
  const GgufValue& value = at(key);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  const auto* fraction = std::get_if<double>(&value);
  if (fraction == nullptr) refuse(key, "a number");
  return *fraction;
}

double Gguf::number_or(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool Gguf::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const auto* value = std::get_if<bool>(&at(key));
  if (value == nullptr) refuse(key, "true or false");
  return *value;
}

std::string Gguf::text(std::string_view key) const {
  const auto* value = std::get_if<std::string_view>(&at(key));
  if (value == nullptr) refuse(key, "a string");
  return std::string(*value);
}

std::string Gguf::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

const GgufArray& Gguf::array(std::string_view key) const {
  const auto* value = std::get_if<GgufArray>(&at(key));
  if (value == nullptr) refuse(key, "a list");
  return *value;
}

std::vector<std::string_view> Gguf::texts(std::string_view key) const {
  const GgufArray& list = array(key);
  if (list.type != kString) refuse(key, "a list of strings");
  Cursor cursor(list.bytes, source_);
  std::vector<std::string_view> texts;
  for (std::uint64_t i = 0; i < list.count; ++i) texts.push_back(cursor.take_text());
  return texts;
}

std::vector<double> Gguf::numbers(std::string_view key) const {
  const GgufArray& list = array(key);
  if (list.type == kString || list.type == kBool) refuse(key, "a list of numbers");
  Cursor cursor(list.bytes, source_);
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    const GgufValue value = take_scalar(cursor, list.type);
    const auto* whole = std::get_if<std::int64_t>(&value);
    numbers.push_back(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value));
  }
  return numbers;
}

}  // namespace flywheel

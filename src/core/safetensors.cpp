#include "core/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/stored_type.h"

namespace flywheel {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kLengthBytes = 8;

struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
};

// Takes the header event by event, so that a hostile one costs no more memory than its entries.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string source) : source_(std::move(source)) {}

  std::vector<RawEntry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a fraction"); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (!list_) return refuse("a number");
    require(list_->size() < kMaxRank, ErrorKind::Data, "{}: tensor '{}': '{}' is longer than {}",
            source_, entries.back().name, key_, kMaxRank);
    list_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ != 2 || list_) return refuse("a string");
    if (in_metadata_) {
      require(metadata.emplace(key_, value).second, ErrorKind::Data,
              "{}: __metadata__ has the key '{}' twice", source_, key_);
      return true;
    }
    if (key_ != "dtype" || !entries.back().dtype.empty()) return refuse("a string");
    entries.back().dtype = value;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ >= 2 || list_) return refuse("an object");
    if (++depth_ == 1) return true;
    in_metadata_ = key_ == "__metadata__";
    if (!in_metadata_) entries.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}});
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_) return refuse("a list");
    RawEntry& entry = entries.back();
    if (key_ == "shape" && !std::exchange(entry.has_shape, true)) {
      list_ = &entry.shape;
    } else if (key_ == "data_offsets" && entry.offsets.empty()) {
      list_ = &entry.offsets;
    } else {
      return refuse("a list");
    }
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    fail(ErrorKind::Data, "{}: the header is not valid JSON at its byte {}", source_, position);
  }

 private:
  [[noreturn]] bool refuse(const char* what) const {
    fail(ErrorKind::Data, "{}: the header has {} where none belongs (near key '{}')", source_, what,
         key_);
  }

  std::string source_;
  std::string key_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::vector<std::uint64_t>* list_ = nullptr;
};

std::uint64_t header_length(std::span<const std::byte> file, const std::string& source) {
  require(file.size() >= kLengthBytes, ErrorKind::Data,
          "{}: {} bytes are too few for a safetensors file", source, file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  require(length <= kMaxHeaderBytes && length <= file.size() - kLengthBytes, ErrorKind::Data,
          "{}: a header of {} bytes does not fit (file {} bytes, limit {}); cut off, or no "
          "safetensors file",
          source, length, file.size(), kMaxHeaderBytes);
  require(length > 0 && static_cast<char>(file[kLengthBytes]) == '{', ErrorKind::Data,
          "{}: the header does not start with '{{'; not a safetensors file", source);
  return length;
}

std::uint64_t bytes_of(const RawEntry& entry, const std::string& source) {
  const std::int64_t element = safetensors_element_size(entry.dtype);
  require(element > 0, ErrorKind::Data, "{}: tensor '{}' has the unsupported dtype '{}'", source,
          entry.name, entry.dtype);
  require(entry.has_shape && entry.offsets.size() == 2, ErrorKind::Data,
          "{}: tensor '{}' lacks a shape or its two data_offsets", source, entry.name);
  std::uint64_t product = static_cast<std::uint64_t>(element);
  for (const std::uint64_t extent : entry.shape) {
    require(extent == 0 || product <= (std::uint64_t{1} << 62) / extent, ErrorKind::Data,
            "{}: tensor '{}' is impossibly large", source, entry.name);
    product *= extent;
  }
  return product;
}

// Checks that the entries tile `data` and points each to its bytes.
std::vector<SafetensorsEntry> place(std::vector<RawEntry> raw, std::span<const std::byte> data,
                                    const std::string& source) {
  std::sort(raw.begin(), raw.end(),
            [](const RawEntry& a, const RawEntry& b) { return a.name < b.name; });
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    require(i == 0 || raw[i].name != raw[i - 1].name, ErrorKind::Data,
            "{}: the tensor '{}' appears twice", source, raw[i].name);
    const std::uint64_t bytes = bytes_of(raw[i], source);
    const auto [begin, end] = std::pair(raw[i].offsets[0], raw[i].offsets[1]);
    require(begin <= end && end <= data.size() && end - begin == bytes, ErrorKind::Data,
            "{}: tensor '{}' needs {} bytes but has the offsets {} to {} of {} bytes of data",
            source, raw[i].name, bytes, begin, end, data.size());
  }
  std::sort(raw.begin(), raw.end(),
            [](const RawEntry& a, const RawEntry& b) { return a.offsets < b.offsets; });
  std::uint64_t position = 0;
  std::vector<SafetensorsEntry> entries;
  for (RawEntry& entry : raw) {
    require(entry.offsets[0] == position, ErrorKind::Data,
            "{}: tensor '{}' begins at byte {} of the data, expected {} (gap or overlap)", source,
            entry.name, entry.offsets[0], position);
    position = entry.offsets[1];
    entries.push_back({std::move(entry.name),
                       std::move(entry.dtype),
                       {entry.shape.begin(), entry.shape.end()},
                       data.subspan(entry.offsets[0], entry.offsets[1] - entry.offsets[0])});
  }
  require(position == data.size(), ErrorKind::Data,
          "{}: the tensors end at byte {} of {} bytes of data; cut off or extended", source,
          position, data.size());
  return entries;
}

std::int64_t bytes_of(const SafetensorsWriter::Tensor& tensor) {
  std::int64_t bytes = safetensors_element_size(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) bytes *= extent;
  return bytes;
}

}  // namespace

std::int64_t safetensors_element_size(std::string_view dtype) {
  static const std::map<std::string_view, std::int64_t> sizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},     {"C64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

std::int64_t SafetensorsEntry::elements() const {
  return static_cast<std::int64_t>(bytes.size()) / safetensors_element_size(dtype);
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source) {
  const std::uint64_t length = header_length(file, source);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  HeaderHandler handler(source);
  nlohmann::json::sax_parse(text, &handler);
  return {place(std::move(handler.entries), file.subspan(kLengthBytes + length), source),
          std::move(handler.metadata)};
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path.string())) {
  for (std::size_t i = 0; i < header_.entries.size(); ++i) index_[header_.entries[i].name] = i;
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

void SafetensorsReader::read_floats(const SafetensorsEntry& entry, std::int64_t begin,
                                    std::span<float> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  require(begin >= 0 && begin <= entry.elements() && count <= entry.elements() - begin,
          ErrorKind::Internal, "{}: tensor '{}' has no elements {} to {}", path().string(),
          entry.name, begin, begin + count);
  const StoredType type = stored_type(entry.dtype);
  require(type != StoredType::Unsupported, ErrorKind::Data,
          "{}: tensor '{}' is {}; expected F32, BF16, F16 or F64", path().string(), entry.name,
          entry.dtype);
  to_floats(type, entry.bytes.data() + begin * safetensors_element_size(entry.dtype), out);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors)
    : path_(path), tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
    const std::int64_t size_a = safetensors_element_size(a.dtype);
    const std::int64_t size_b = safetensors_element_size(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::set<std::string_view> names;
  std::int64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const std::int64_t bytes = bytes_of(tensor);
    require(safetensors_element_size(tensor.dtype) > 0 && names.insert(tensor.name).second,
            ErrorKind::Internal, "{}: tensor '{}' of dtype '{}' cannot be written", path.string(),
            tensor.name, tensor.dtype);
    const nlohmann::ordered_json entry = {{"dtype", tensor.dtype},
                                          {"shape", tensor.shape},
                                          {"data_offsets", {offset, offset + bytes}}};
    text += "," + nlohmann::json(tensor.name).dump() + ":" + entry.dump();
    offset += bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  file_ = std::make_unique<FileWriter>(path);
  file_->write(std::as_bytes(std::span(&length, 1)));
  file_->write(std::as_bytes(std::span(text)));
  begin_next();
}

void SafetensorsWriter::begin_next() {
  for (; current_ < tensors_.size(); ++current_) {
    bytes_missing_ = static_cast<std::size_t>(bytes_of(tensors_[current_]));
    if (bytes_missing_ > 0) return;
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  require(current_ < tensors_.size() && tensors_[current_].name == name &&
              bytes.size() <= bytes_missing_,
          ErrorKind::Internal, "{}: bytes of tensor '{}' out of turn", path_.string(), name);
  file_->write(bytes);
  bytes_missing_ -= bytes.size();
  if (bytes_missing_ > 0) return;
  ++current_;
  begin_next();
}

void SafetensorsWriter::close() {
  require(current_ == tensors_.size(), ErrorKind::Internal, "{}: tensor '{}' was not written",
          path_.string(), current_ < tensors_.size() ? tensors_[current_].name : "");
  file_->close();
}

}  // namespace flywheel

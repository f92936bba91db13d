#include "train/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/file_io.h"
#include "train/append_file.h"
#include "train/events.pb.h"

namespace flywheel {
namespace {

constexpr std::uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1U ? 0x82F63B78U : 0U);
    table.at(byte) = rest;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

// Rotated and shifted, so that a checksum of data with checksums in it stays strong.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + kMaskDelta;
}

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::filesystem::path new_event_file(const std::filesystem::path& folder, double wall_time) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  // Readers take the files of a folder in the order of their names.
  for (int number = 0;; ++number) {
    const auto path =
        folder / fmt::format("events.out.tfevents.{:010}.{:04}.{}.{}",
                             static_cast<std::int64_t>(wall_time), number, host.data(), getpid());
    if (!std::filesystem::exists(path)) return path;
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable.at((crc ^ static_cast<unsigned char>(byte)) & 0xFF);
  }
  return ~crc;
}

std::string frame_record(std::string_view record) {
  const std::string length = little_endian(std::uint64_t{record.size()});
  return length + little_endian(masked_crc(length)) + std::string(record) +
         little_endian(masked_crc(record));
}

struct EventWriter::Impl {
  AppendFile file;
  void write(const events::Event& event) { file.append(frame_record(event.SerializeAsString())); }
};

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t first_step,
                         double wall_time)
    : impl_(std::make_unique<Impl>(Impl{AppendFile(new_event_file(folder, wall_time))})) {
  events::Event version;
  version.set_wall_time(wall_time);
  version.set_file_version("brain.Event:2");
  impl_->write(version);
  events::Event start;
  start.set_wall_time(wall_time);
  start.set_step(first_step);
  start.mutable_session_log()->set_status(events::SessionLog::START);
  impl_->write(start);
}

EventWriter::~EventWriter() = default;

const std::filesystem::path& EventWriter::path() const {
  return impl_->file.path();
}

void EventWriter::write(std::int64_t step, double wall_time, std::span<const Scalar> scalars) {
  events::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  for (const Scalar& scalar : scalars) {
    events::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(std::string(scalar.tag));
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  impl_->write(event);
}

void EventWriter::write_text(std::int64_t step, double wall_time, std::string_view tag,
                             std::string_view text) {
  events::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(std::string(tag));
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  events::TensorProto& tensor = *value.mutable_tensor();
  tensor.set_dtype(events::TensorProto::DT_STRING);
  tensor.add_string_val(std::string(text));
  impl_->write(event);
}

}  // namespace flywheel

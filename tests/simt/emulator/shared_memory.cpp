#include <fmt/format.h>

#include <utility>

#include "simt/emulator/faults.h"
#include "simt/emulator/intrinsics.h"

namespace simt {
namespace {

constexpr std::size_t kZone = 64;
constexpr std::uint64_t kPattern = 0xfdfdfdfdfdfdfdfdULL;

// The nearest 32 bytes of a zone, for the look at every switch.
bool intact(const unsigned char* zone) {
  std::uint64_t words[4];
  std::memcpy(words, zone, sizeof(words));
  return ((words[0] ^ kPattern) | (words[1] ^ kPattern) | (words[2] ^ kPattern) |
          (words[3] ^ kPattern)) == 0;
}

bool zones_intact(const Worker& w) {
  const unsigned char* end = w.shared + w.shared_bytes;
  bool good =
      w.shared_bytes == 0 || (intact(w.shared - 32) && (w.arena_end - end < 32 || intact(end)));
  for (const StaticShared& variable : w.statics) good &= intact(variable.data + variable.bytes);
  return good;
}

const unsigned char* first_damage(const unsigned char* begin, const unsigned char* end) {
  for (; begin < end; ++begin) {
    if (*begin != 0xfd) return begin;
  }
  return nullptr;
}

// "static shared memory written out of bounds at byte offset 132 (size 128)"; empty if it was not.
std::string describe_damage(const Worker& w) {
  const auto describe = [](const char* kind, std::ptrdiff_t offset, std::size_t size) {
    return fmt::format("{} shared memory written out of bounds at byte offset {} (size {})", kind,
                       offset, size);
  };
  for (const StaticShared& variable : w.statics) {
    const unsigned char* end = variable.data + variable.bytes;
    if (const unsigned char* damage = first_damage(end, end + kZone)) {
      return describe("static", damage - variable.data, variable.bytes);
    }
  }
  const unsigned char* damage = first_damage(w.shared - kZone, w.shared);
  if (!damage) damage = first_damage(w.shared + w.shared_bytes, w.arena_end);
  return damage ? describe("dynamic", damage - w.shared, w.shared_bytes) : "";
}

}  // namespace

void check_red_zones(Worker& w, bool at_switch) {
  if (at_switch && zones_intact(w)) return;
  const std::string damage = describe_damage(w);
  if (damage.empty()) return;
  if (at_switch) fail(damage + ", found when this thread blocked");
  w.current = nullptr;
  report(damage + ", found at the end of the block");
}

void* static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  Worker& w = *worker;
  unsigned char* at =
      w.statics.empty() ? w.arena + kZone : w.statics.back().data + w.statics.back().bytes + kZone;
  const std::uintptr_t unit = std::max<std::size_t>(alignment, 16);
  at = reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(at) + unit - 1) / unit *
                                        unit);
  if (bytes > (48U << 10) || at + bytes + 2 * kZone > w.shared) {
    fail(fmt::format("static shared memory: {} bytes do not fit", bytes));
  }
  std::memset(at, 0xff, bytes);  // NaN
  std::memset(at - kZone, 0xfd, kZone);
  std::memset(at + bytes, 0xfd, kZone);
  w.statics.push_back({key, at, bytes});
  return at;
}

std::uint32_t shared_offset(const void* address) {
  const auto* byte = static_cast<const unsigned char*>(address);
  if (byte < worker->arena || byte >= worker->arena_end) {
    fail(fmt::format("address {} is not in shared memory", address));
  }
  return static_cast<std::uint32_t>(byte - worker->arena);
}

namespace {

void land(const void* pc, const PendingCopy& copy) {
  if (observer) {
    if (copy.from) observer->accessed(pc, copy.from, 16, false, false);
    observer->accessed(pc, copy.to, 16, true, false);
  }
  if (copy.from) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

}  // namespace

void queue_copy(void* to, const void* from, bool valid) {
  const void* pc = __builtin_return_address(0);
  if (shared_offset(to) % 16 != 0 || (valid && reinterpret_cast<std::uintptr_t>(from) % 16 != 0)) {
    fail("cp_async_16: an address is not aligned to 16 bytes");
  }
  if (valid && !is_device_address(from)) {
    fail(fmt::format("cp_async_16: source {} is not device memory", from));
  }
  if (observer) observer->accessed(pc, to, 16, true, true);
  const PendingCopy copy{to, valid ? from : nullptr};
  if (draw_late_landing()) {
    worker->current->copies.push_back(copy);
    ++worker->current->open_group;
  } else {
    land(pc, copy);
  }
}

void commit_copies() {
  Fiber& fiber = *worker->current;
  fiber.committed_groups.push_back(std::exchange(fiber.open_group, 0));
}

void wait_for_copies(int groups_in_flight) {
  const void* pc = __builtin_return_address(0);
  Fiber& fiber = *worker->current;
  const auto groups = static_cast<std::ptrdiff_t>(fiber.committed_groups.size());
  const std::ptrdiff_t done = std::max<std::ptrdiff_t>(0, groups - groups_in_flight);
  std::ptrdiff_t copies = 0;
  for (std::ptrdiff_t i = 0; i < done; ++i) {
    copies += fiber.committed_groups[static_cast<std::size_t>(i)];
  }
  for (std::ptrdiff_t i = 0; i < copies; ++i) land(pc, fiber.copies[static_cast<std::size_t>(i)]);
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + copies);
  fiber.committed_groups.erase(fiber.committed_groups.begin(),
                               fiber.committed_groups.begin() + done);
}

}  // namespace simt

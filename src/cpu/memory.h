#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"

namespace flywheel::cpu {

// Zeroed memory that starts at a multiple of 2 MiB and asks for huge pages. Error Device with the
// name, the size and what the machine has if there is not enough.
class Memory final : public DeviceMemory {
 public:
  enum class Pages : std::uint8_t {
    All,
    OnWrite,  // small ones, since the machine may have less than is asked for
  };

  Memory(std::int64_t bytes, const std::string& name, Pages pages = Pages::All);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const override { return data_; }
  std::int64_t bytes() const override { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_;
  void* mapping_;
  std::size_t mapped_bytes_ = 0;
};

// Scratch memory of the ops, reserved once; pages that no op ever touches cost nothing. One op at a
// time uses it.
class Workspace {
 public:
  static constexpr std::int64_t kSharedFloats = std::int64_t{1} << 22;
  static constexpr std::int64_t kThreadFloats = std::int64_t{1} << 18;

  explicit Workspace(int threads)
      : memory_(
            (kSharedFloats + threads * kThreadFloats) * static_cast<std::int64_t>(sizeof(float)),
            "workspace of the CPU kernels") {}

  float* shared() const { return reinterpret_cast<float*>(memory_.data()); }
  float* of_thread(int thread) const { return shared() + kSharedFloats + thread * kThreadFloats; }

 private:
  Memory memory_;
};

}  // namespace flywheel::cpu

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace flywheel {

// Up to four extents, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    for (const std::int64_t extent : extents) extents_.at(static_cast<unsigned>(rank_++)) = extent;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const {
    return extents_[static_cast<unsigned>(axis)];
  }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
    return product;
  }
  constexpr bool operator==(const Shape&) const = default;

  std::string to_string() const {  // "[128, 64]"
    std::string text = "[";
    for (int axis = 0; axis < rank_; ++axis) {
      if (axis > 0) text += ", ";
      text += std::to_string((*this)[axis]);
    }
    return text + "]";
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace flywheel

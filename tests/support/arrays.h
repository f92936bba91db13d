#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/shape.h"

namespace flywheel::test {

// A row-major tensor on the host; integers are kept as whole numbers.
template <class Real>
struct Array {
  Shape shape;
  std::vector<Real> values;

  Array() = default;
  explicit Array(Shape extents)
      : shape(extents), values(static_cast<std::size_t>(extents.elements()), Real{0}) {}

  std::int64_t extent(int axis) const { return shape[axis]; }
  std::int64_t integer(std::int64_t i) const {
    return static_cast<std::int64_t>(values[static_cast<std::size_t>(i)]);
  }
  Real& operator()(std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  Real& operator()(std::int64_t i, std::int64_t j) { return (*this)(i * shape[1] + j); }
  Real& operator()(std::int64_t i, std::int64_t j, std::int64_t k) {
    return (*this)((i * shape[1] + j) * shape[2] + k);
  }
  Real& operator()(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
    return (*this)(((i * shape[1] + j) * shape[2] + k) * shape[3] + l);
  }
};

// The arguments of an op by the names of its struct's fields; optional ones may be missing.
template <class Real>
using Arrays = std::map<std::string, Array<Real>>;

}  // namespace flywheel::test

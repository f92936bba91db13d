#include "parity/op_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/float16.h"

namespace flywheel::test {
namespace {

constexpr std::int64_t kGuard = 256;  // bytes between operands that nobody may touch
constexpr std::int64_t kPadding = 3;
constexpr float kUntouched = -12345.5F;

using Bytes = std::vector<std::byte>;

// Where an operand lies in the slab.
struct Placement {
  TensorView view;
  std::int64_t first = 0;  // byte
  std::size_t at(std::int64_t offset) const {
    return static_cast<std::size_t>(first + offset * size_of(view.dtype));
  }
};

TensorView strided_view(const Operand& operand, void* memory, DeviceKind device) {
  const Shape shape = operand.initial.shape;
  if (operand.layout == Layout::kHeadsFirst) {
    return TensorView::heads_first(memory, operand.dtype, shape[0], shape[1], shape[2], device);
  }
  TensorView view(memory, operand.dtype, shape, device);
  if (operand.layout == Layout::kPaddedRows) {
    for (unsigned axis = 0; axis + 1 < static_cast<unsigned>(shape.rank()); ++axis) {
      view.strides[axis] += kPadding * (view.strides[axis] / view.stride(shape.rank() - 2));
    }
  }
  return view;
}

// The bytes that the operand spans.
std::int64_t spanned_bytes(const Operand& operand) {
  const TensorView view = strided_view(operand, nullptr, DeviceKind::Cpu);
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.stride(axis);
  }
  return (last + 1) * size_of(operand.dtype);
}

// f(row-major index, offset in elements) for every element of the view.
template <class F>
void for_elements(const TensorView& view, const F& f) {
  const Shape& shape = view.shape;
  for (std::int64_t index = 0; index < shape.elements(); ++index) {
    std::int64_t rest = index;
    std::int64_t offset = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * view.stride(axis);
      rest /= shape[axis];
    }
    f(index, offset);
  }
}

template <class T>
void store_as(Bytes& slab, std::size_t at, T value) {
  std::memcpy(slab.data() + at, &value, sizeof(value));
}

template <class T>
T load_as(const Bytes& slab, std::size_t at) {
  T value{};
  std::memcpy(&value, slab.data() + at, sizeof(value));
  return value;
}

void store(Bytes& slab, const Placement& place, std::int64_t offset, double value) {
  const std::size_t at = place.at(offset);
  switch (place.view.dtype) {
    case DType::F64:
      return store_as(slab, at, value);
    case DType::I32:
      return store_as(slab, at, static_cast<std::int32_t>(value));
    case DType::BF16:
      return store_as(slab, at, float_to_bf16(static_cast<float>(value)));
    default:
      return store_as(slab, at, static_cast<float>(value));
  }
}

double load(const Bytes& slab, const Placement& place, std::int64_t offset) {
  const std::size_t at = place.at(offset);
  switch (place.view.dtype) {
    case DType::F64:
      return load_as<double>(slab, at);
    case DType::I32:
      return load_as<std::int32_t>(slab, at);
    case DType::BF16:
      return static_cast<double>(bf16_to_float(load_as<std::uint16_t>(slab, at)));
    default:
      return static_cast<double>(load_as<float>(slab, at));
  }
}

// Integers may be what the slab was filled with.
bool can_tell_unwritten(const Operand& operand) {
  return operand.role == Role::kOutput && operand.dtype != DType::I32;
}

bool same_bytes(const Bytes& a, const Bytes& b, std::size_t at, std::int64_t count) {
  return std::memcmp(a.data() + at, b.data() + at, static_cast<std::size_t>(count)) == 0;
}

Bytes untouched(std::int64_t size) {
  Bytes slab(static_cast<std::size_t>(size));
  for (std::size_t at = 0; at < slab.size(); at += sizeof(float)) store_as(slab, at, kUntouched);
  return slab;
}

}  // namespace

template <class Real>
Arrays<Real> OpCase::arrays() const {
  Arrays<Real> result;
  for (const Operand& operand : operands) {
    Array<Real> array(operand.initial.shape);
    std::transform(operand.initial.values.begin(), operand.initial.values.end(),
                   array.values.begin(), [](double x) { return static_cast<Real>(x); });
    result[operand.name] = std::move(array);
  }
  return result;
}
template Arrays<float> OpCase::arrays() const;
template Arrays<double> OpCase::arrays() const;

Outputs run_on(Backend& backend, const OpCase& op_case) {
  std::map<std::string, Placement> places;
  std::int64_t size = kGuard;
  for (const Operand& operand : op_case.operands) {
    if (!operand.in_memory_of.empty()) continue;
    places[operand.name].first = size;
    size += (spanned_bytes(operand) + 2 * kGuard) / kGuard * kGuard;
  }
  for (const Operand& operand : op_case.operands) {
    if (operand.in_memory_of.empty()) continue;
    places[operand.name].first = places.at(operand.in_memory_of).first;
  }

  const auto memory = backend.allocate(size, "operands of " + op_case.name);
  Bytes before = untouched(size);
  std::vector<bool> writable(before.size(), false);
  Views views;
  for (const Operand& operand : op_case.operands) {
    Placement& place = places[operand.name];
    place.view = strided_view(operand, memory->data() + place.first, backend.device());
    views.set(operand.name, place.view);
    for_elements(place.view, [&](std::int64_t index, std::int64_t offset) {
      if (operand.role != Role::kOutput) {
        store(before, place, offset, operand.initial.values[static_cast<std::size_t>(index)]);
      }
      if (operand.role == Role::kInput) return;
      for (std::int64_t i = 0; i < size_of(operand.dtype); ++i) {
        writable[place.at(offset) + static_cast<std::size_t>(i)] = true;
      }
    });
  }

  const TensorView slab(memory->data(), DType::F32, Shape{size / size_of(DType::F32)},
                        backend.device());
  backend.upload(slab, before.data());
  op_case.run(backend, views);
  backend.synchronize();
  Bytes after(before.size());
  backend.download(after.data(), slab);

  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!writable[i] && before[i] != after[i]) {
      throw std::runtime_error(op_case.name + ": wrote outside its outputs");
    }
  }
  Outputs outputs;
  for (const Operand& operand : op_case.operands) {
    if (operand.role == Role::kInput) continue;
    const Placement& place = places[operand.name];
    Array<double> output(operand.initial.shape);
    for_elements(place.view, [&](std::int64_t index, std::int64_t offset) {
      output(index) = load(after, place, offset);
      const std::size_t at = place.at(offset);
      if (can_tell_unwritten(operand) && operand.in_memory_of.empty() &&
          same_bytes(before, after, at, size_of(operand.dtype))) {
        throw std::runtime_error(op_case.name + ": left " + operand.name + " unwritten");
      }
    });
    outputs[operand.name] = std::move(output);
  }
  return outputs;
}

bool same_bits(const Outputs& a, const Outputs& b) {
  for (const auto& [name, array] : a) {
    const auto& other = b.at(name).values;
    if (std::memcmp(array.values.data(), other.data(), other.size() * sizeof(double)) != 0) {
      return false;
    }
  }
  return true;
}

Comparison compare(const OpCase& op_case, const Outputs& measured) {
  Arrays<double> exact = op_case.arrays<double>();
  op_case.reference(exact);
  Arrays<float> naive = op_case.arrays<float>();
  op_case.naive(naive);

  Comparison worst;
  double worst_ratio = -1;
  for (const auto& [name, output] : measured) {
    double error = 0;
    double naive_error = 0;
    double largest = op_case.scale_floor;
    for (std::size_t i = 0; i < output.values.size(); ++i) {
      const double truth = exact[name].values[i];
      const double difference = std::abs(output.values[i] - truth);
      error = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(error, difference);
      naive_error =
          std::max(naive_error, std::abs(static_cast<double>(naive[name].values[i]) - truth));
      largest = std::max(largest, std::abs(truth));
    }
    constexpr double kRounding = 0x1p-24;
    const double tolerance = 2 * naive_error + 4 * kRounding * largest;
    const double ratio = error == 0 ? 0 : error / tolerance;
    if (ratio > worst_ratio) {
      worst_ratio = ratio;
      worst = {name, error, tolerance};
    }
  }
  return worst;
}

}  // namespace flywheel::test

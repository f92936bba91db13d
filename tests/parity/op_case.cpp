#include "parity/op_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace flywheel::test {
namespace {

constexpr std::int64_t kGuard = 64;  // elements between operands that nobody may touch
constexpr std::int64_t kPadding = 3;
const float kUntouched = -12345.5F;

// Where an operand lies in the slab, in units of 4 bytes.
struct Placement {
  TensorView view;
  std::int64_t first = 0;
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

// The words (4 bytes) that the operand spans.
std::int64_t words(const Operand& operand) {
  const TensorView view = strided_view(operand, nullptr, DeviceKind::Cpu);
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.stride(axis);
  }
  return (last + 1) * size_of(operand.dtype) / 4;
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

void store(float* slab, const Placement& place, std::int64_t offset, double value) {
  float* word = slab + place.first + offset * size_of(place.view.dtype) / 4;
  if (place.view.dtype == DType::F64) {
    std::memcpy(word, &value, sizeof(value));
  } else if (place.view.dtype == DType::I32) {
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(word, &integer, sizeof(integer));
  } else {
    *word = static_cast<float>(value);
  }
}

double load(const float* slab, const Placement& place, std::int64_t offset) {
  const float* word = slab + place.first + offset * size_of(place.view.dtype) / 4;
  if (place.view.dtype == DType::F64) {
    double value = 0;
    std::memcpy(&value, word, sizeof(value));
    return value;
  }
  if (place.view.dtype == DType::I32) {
    std::int32_t value = 0;
    std::memcpy(&value, word, sizeof(value));
    return value;
  }
  return *word;
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
    size += (words(operand) + 2 * kGuard) / kGuard * kGuard;
  }
  for (const Operand& operand : op_case.operands) {
    if (operand.in_memory_of.empty()) continue;
    places[operand.name].first = places.at(operand.in_memory_of).first;
  }

  const auto memory = backend.allocate(size * 4, "operands of " + op_case.name);
  std::vector<float> before(static_cast<std::size_t>(size), kUntouched);
  std::vector<bool> writable(before.size(), false);
  Views views;
  for (const Operand& operand : op_case.operands) {
    Placement& place = places[operand.name];
    place.view = strided_view(operand, memory->data() + place.first * 4, backend.device());
    views.set(operand.name, place.view);
    for_elements(place.view, [&](std::int64_t index, std::int64_t offset) {
      if (operand.role != Role::kOutput) {
        store(before.data(), place, offset,
              operand.initial.values[static_cast<std::size_t>(index)]);
      }
      if (operand.role == Role::kInput) return;
      const std::int64_t word = place.first + offset * size_of(operand.dtype) / 4;
      for (std::int64_t i = 0; i < size_of(operand.dtype) / 4; ++i) {
        writable[static_cast<std::size_t>(word + i)] = true;
      }
    });
  }

  const TensorView slab(memory->data(), DType::F32, Shape{size}, backend.device());
  backend.upload(slab, before.data());
  op_case.run(backend, views);
  backend.synchronize();
  std::vector<float> after(before.size());
  backend.download(after.data(), slab);

  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!writable[i] && std::memcmp(&before[i], &after[i], sizeof(float)) != 0) {
      throw std::runtime_error(op_case.name + ": wrote outside its outputs");
    }
  }
  Outputs outputs;
  for (const Operand& operand : op_case.operands) {
    if (operand.role == Role::kInput) continue;
    const Placement& place = places[operand.name];
    Array<double> output(operand.initial.shape);
    for_elements(place.view, [&](std::int64_t index, std::int64_t offset) {
      output(index) = load(after.data(), place, offset);
      if (operand.role == Role::kOutput && operand.dtype == DType::F32 &&
          output(index) == static_cast<double>(kUntouched)) {
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

#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "parity/op_case.h"

namespace flywheel::test {

// Builds a case: draws sizes and values from the case's own random stream and notes them in its
// name.
class Draft {
 public:
  Draft(const std::string& op, std::uint32_t seed) : random_(seed) {
    case_.name = fmt::format("{} seed {}", op, seed);
  }

  std::int64_t size(const char* letter, std::initializer_list<std::int64_t> choices) {
    const std::int64_t value = choices.begin()[random_() % choices.size()];
    case_.name += fmt::format(" {}={}", letter, value);
    return value;
  }
  std::int64_t tokens() { return size("T", {1, 2, 3, 7, 17, 64, 129, 300}); }
  std::int64_t width() { return size("d", {1, 3, 8, 16, 19, 33, 64, 100, 257, 520}); }
  bool flag(const char* name) {
    const bool value = random_() % 2 == 1;
    if (value) case_.name += fmt::format(" {}", name);
    return value;
  }
  Layout layout(const char* name, Layout other) { return flag(name) ? other : Layout::kContiguous; }
  double normal() { return static_cast<double>(static_cast<float>(normal_(random_))); }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }

  Operand& add(const std::string& name, Role role, Shape shape,
               Layout layout = Layout::kContiguous) {
    Operand operand{name, role, layout, DType::F32, Array<double>(shape), ""};
    for (double& x : operand.initial.values) x = normal();
    case_.operands.push_back(std::move(operand));
    return case_.operands.back();
  }
  void in(const std::string& name, Shape shape, Layout layout = Layout::kContiguous) {
    add(name, Role::kInput, shape, layout);
  }
  void out(const std::string& name, Shape shape, Layout layout = Layout::kContiguous) {
    add(name, Role::kOutput, shape, layout);
  }
  void in_out(const std::string& name, Shape shape, Layout layout = Layout::kContiguous) {
    add(name, Role::kInputOutput, shape, layout);
  }
  // Whole numbers in [lowest, limit).
  void indices(const std::string& name, std::int64_t count, std::int64_t limit,
               std::int64_t lowest = 0) {
    Operand& operand = add(name, Role::kInput, {count});
    operand.dtype = DType::I32;
    for (double& x : operand.initial.values) {
      x = static_cast<double>(lowest + below(limit - lowest));
    }
  }
  // What the forward op saved: f(arrays of double) computes it from the operands so far and zeros.
  template <class F>
  void saved(const std::string& name, Shape shape, const F& f) {
    Arrays<double> t = case_.arrays<double>();
    for (const char* output : {"out", "rstd", "mean"}) {
      t[output] = Array<double>(std::string(output) == "out" ? t["x"].shape : shape);
    }
    f(t);
    Operand& operand = add(name, Role::kInput, shape);
    for (std::size_t i = 0; i < operand.initial.values.size(); ++i) {
      operand.initial.values[i] = static_cast<double>(static_cast<float>(t[name].values[i]));
    }
  }
  // `name` is written over `source`.
  void in_place(const std::string& name, const std::string& source) {
    find(name).in_memory_of = source;
  }
  Operand& find(const std::string& name) {
    for (Operand& operand : case_.operands) {
      if (operand.name == name) return operand;
    }
    throw std::runtime_error("no operand " + name);
  }
  OpCase* operator->() { return &case_; }
  OpCase finish() { return std::move(case_); }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  OpCase case_;
};

}  // namespace flywheel::test

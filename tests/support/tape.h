#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace flywheel::test {

// Reverse-mode derivatives of scalar code: a number that writes down how it came about. One tape a
// thread and type; gradients() walks it backwards.
template <class Real>
class Traced {
 public:
  Traced() = default;
  Traced(Real constant) : value_(constant) {}  // NOLINT(google-explicit-constructor)

  static Traced variable(Real value) { return record(value, -1, 0, -1, 0); }
  static void clear() { tape().clear(); }
  // d result / d (every number on the tape), by node.
  static std::vector<Real> gradients(const Traced& result) {
    const auto& nodes = tape();
    std::vector<Real> adjoints(nodes.size(), Real(0));
    if (result.node_ >= 0) adjoints[index(result.node_)] = Real(1);
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = nodes[i];
      if (node.a >= 0) adjoints[index(node.a)] += adjoints[i] * node.da;
      if (node.b >= 0) adjoints[index(node.b)] += adjoints[i] * node.db;
    }
    return adjoints;
  }

  Real value() const { return value_; }
  std::int32_t node() const { return node_; }

  friend Traced operator+(Traced x, Traced y) { return record(x.value_ + y.value_, x, 1, y, 1); }
  friend Traced operator-(Traced x, Traced y) { return record(x.value_ - y.value_, x, 1, y, -1); }
  friend Traced operator*(Traced x, Traced y) {
    return record(x.value_ * y.value_, x, y.value_, y, x.value_);
  }
  friend Traced operator/(Traced x, Traced y) {
    const Real quotient = x.value_ / y.value_;
    return record(quotient, x, 1 / y.value_, y, -quotient / y.value_);
  }
  Traced operator-() const { return record(-value_, *this, -1, {}, 0); }
  Traced& operator+=(Traced y) { return *this = *this + y; }

  friend Traced exp(Traced x) {
    const Real e = std::exp(x.value_);
    return record(e, x, e, {}, 0);
  }
  friend Traced log(Traced x) { return record(std::log(x.value_), x, 1 / x.value_, {}, 0); }
  friend Traced sqrt(Traced x) {
    const Real root = std::sqrt(x.value_);
    return record(root, x, Real(0.5) / root, {}, 0);
  }
  friend Traced tanh(Traced x) {
    const Real t = std::tanh(x.value_);
    return record(t, x, 1 - t * t, {}, 0);
  }

 private:
  struct Node {
    std::int32_t a, b;
    Real da, db;
  };
  static std::vector<Node>& tape() {
    static thread_local std::vector<Node> nodes;
    return nodes;
  }
  static std::size_t index(std::int32_t node) { return static_cast<std::size_t>(node); }
  static Traced record(Real value, const Traced& x, Real dx, const Traced& y, Real dy) {
    if (x.node_ < 0 && y.node_ < 0) return value;
    return record(value, x.node_, dx, y.node_, dy);
  }
  static Traced record(Real value, std::int32_t a, Real da, std::int32_t b, Real db) {
    Traced traced(value);
    traced.node_ = static_cast<std::int32_t>(tape().size());
    tape().push_back({a, b, da, db});
    return traced;
  }

  Real value_ = 0;
  std::int32_t node_ = -1;
};

inline float value_of(float x) {
  return x;
}
inline double value_of(double x) {
  return x;
}
template <class Real>
Real value_of(const Traced<Real>& x) {
  return x.value();
}

}  // namespace flywheel::test

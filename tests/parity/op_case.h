#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "support/arrays.h"

namespace flywheel::test {

enum class Layout : std::uint8_t { kContiguous, kHeadsFirst, kPaddedRows };
enum class Role : std::uint8_t { kInput, kOutput, kInputOutput };

// One tensor argument of a case, by the name of its field.
struct Operand {
  std::string name;
  Role role = Role::kInput;
  Layout layout = Layout::kContiguous;
  DType dtype = DType::F32;
  Array<double> initial;     // what it holds before the op; exact in dtype
  std::string in_memory_of;  // the operand whose memory it shares, for ops in place
};

// The views handed to an op; empty for operands that the case does not have.
class Views {
 public:
  TensorView operator[](const std::string& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? TensorView() : found->second;
  }
  void set(const std::string& name, const TensorView& view) { views_[name] = view; }

 private:
  std::map<std::string, TensorView> views_;
};

// A call of an op with given arguments, and what it should give. Any backend can run it.
struct OpCase {
  std::string name;  // op, seed and shapes: enough to repeat it
  std::vector<Operand> operands;
  std::function<void(Backend&, const Views&)> run;
  std::function<void(Arrays<double>&)> reference;
  std::function<void(Arrays<float>&)> naive;
  double scale_floor = 0;  // of the rounding noise, where results cancel: size of what cancels

  // f(arrays) once in double and once in float.
  template <class F>
  void expect(const F& f) {
    reference = f;
    naive = f;
  }
  template <class Real>
  Arrays<Real> arrays() const;
};

// Operands after a run, by name, for the outputs only.
using Outputs = std::map<std::string, Array<double>>;

// Runs the case on the backend. Throws std::runtime_error if it writes outside its outputs or
// leaves an element of an output unwritten.
Outputs run_on(Backend& backend, const OpCase& op_case);
bool same_bits(const Outputs& a, const Outputs& b);

// The worst output of `measured`: its error against the double reference and the tolerance, which
// is twice the error of the naive float loop plus four roundings of the largest element.
struct Comparison {
  std::string output;
  double error = 0;
  double tolerance = 0;
  bool passed() const { return error <= tolerance; }
};
Comparison compare(const OpCase& op_case, const Outputs& measured);

// Deterministic random cases of every op: ragged and odd sizes, strides, optional arguments, in
// place.
std::vector<OpCase> all_op_cases();
// Those that can be in bf16, in bf16: inputs that it holds exactly, the same operations, and a
// naive loop that rounds what it stores.
std::vector<OpCase> bf16_op_cases();

}  // namespace flywheel::test

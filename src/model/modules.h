#pragma once

#include "backend/ops.h"
#include "model/parameters.h"

namespace flywheel {

// The slabs that slots are resolved in. `gradients` is null in an inference-only model, `rounded`
// in float32.
struct ParameterSlabs {
  std::byte* values = nullptr;
  std::byte* gradients = nullptr;
  std::byte* rounded = nullptr;  // the same elements in bf16
  DeviceKind device = DeviceKind::Cpu;

  TensorView value(const Slot& slot) const { return slot.in(values, device); }
  TensorView gradient(const Slot& slot) const { return slot.in(gradients, device); }
  TensorView copy(const Slot& slot) const { return slot.rounded().in(rounded, device); }
  // What passes read.
  TensorView weight(const Slot& slot) const { return rounded ? copy(slot) : value(slot); }
};

// y = x W + b.
class Linear {
 public:
  Linear() = default;
  Linear(const LinearSlot& slot, const ParameterSlabs& slabs)
      : weight_(slabs.weight(slot.weight)),
        bias_(slabs.weight(slot.bias)),
        dweight_(slabs.gradient(slot.weight)),
        dbias_(slabs.gradient(slot.bias)),
        in_out_(slot.in_out) {}

  // `few_rows`: as in Matmul.
  void forward(Backend& backend, const TensorView& y, const TensorView& x,
               bool few_rows = false) const;
  // dx = dy W^T, or += with `accumulate`; adds to the gradients of W and b.
  void backward(Backend& backend, const TensorView& dx, const TensorView& dy, const TensorView& x,
                bool accumulate = false) const;

 private:
  TensorView weight_, bias_, dweight_, dbias_;
  bool in_out_ = false;
};

// The statistics of the rows that a norm's backward needs: rstd, and mean for LayerNorm.
struct NormStatistics {
  TensorView rstd;  // [T]
  TensorView mean;  // [T]
};

// RMSNorm or LayerNorm over the rows of x.
class Norm {
 public:
  Norm() = default;
  Norm(NormKind kind, double eps, const NormSlot& slot, const ParameterSlabs& slabs)
      : kind_(kind),
        eps_(static_cast<float>(eps)),
        weight_(slabs.weight(slot.weight)),
        bias_(slabs.weight(slot.bias)),
        dweight_(slabs.gradient(slot.weight)),
        dbias_(slabs.gradient(slot.bias)) {}

  void forward(Backend& backend, const TensorView& y, const NormStatistics& statistics,
               const TensorView& x) const;
  // sum = x + residual, then the norm of it; `sum` may be x or residual.
  void add_forward(Backend& backend, const TensorView& sum, const TensorView& y,
                   const NormStatistics& statistics, const TensorView& x,
                   const TensorView& residual) const;
  void backward(Backend& backend, const TensorView& dx, const TensorView& dy, const TensorView& x,
                const NormStatistics& statistics, bool accumulate) const;

 private:
  NormKind kind_ = NormKind::RmsNorm;
  float eps_ = 0;
  TensorView weight_, bias_, dweight_, dbias_;
};

}  // namespace flywheel

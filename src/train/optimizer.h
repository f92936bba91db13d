#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/transformer.h"
#include "train/tensor_files.h"
#include "train/train_config.h"

namespace flywheel {

// The size of a whole gradient, and where it is not finite.
struct GradientNorm {
  double value = 0;     // root of the sum of squares over all parameters
  std::string culprit;  // the first parameter whose gradient is not finite; empty: none
};

// AdamW over a model's parameters: two moments each, the gradient clipped by its global norm.
class Optimizer {
 public:
  // Allocates the moments, zeroed. `parameters` outlive this.
  Optimizer(Backend& backend, std::span<const Parameter> parameters, const OptimizerConfig& config);

  // Waits for the backward pass. The sums are taken tensor by tensor in f64, in a fixed order.
  GradientNorm gradient_norm();
  // One update. `update` counts from 1 (the bias correction); the norm is that of gradient_norm().
  void update(std::int64_t update, double learning_rate, double gradient_norm);

  // The moments as "m.NAME" and "v.NAME", for checkpoints.
  std::vector<NamedTensor> state() const;

  // What the constructor allocates for that many parameters.
  static std::vector<MemoryLine> memory(std::int64_t parameters);

 private:
  Backend& backend_;
  std::span<const Parameter> parameters_;
  OptimizerConfig config_;
  std::unique_ptr<DeviceMemory> moments_memory_;
  std::unique_ptr<DeviceMemory> sums_memory_;
  std::unique_ptr<DeviceMemory> clip_memory_;
  std::vector<TensorView> m_;  // [n] each
  std::vector<TensorView> v_;
  TensorView sums_;  // [parameters] f64
  TensorView clip_;  // [1]
  std::vector<double> host_sums_;
};

}  // namespace flywheel

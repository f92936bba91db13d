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

// What the passes of a step came to.
struct StepSums {
  double losses = 0;
  double gradient_norm = 0;  // root of the sum of squares over all parameters
  std::string culprit;       // the first parameter whose gradient is not finite; empty: none
};

// AdamW over a model's parameters: two moments each, the gradient clipped by its global norm.
class Optimizer {
 public:
  // Allocates the moments, zeroed. `parameters` outlive this.
  // `seed`: of the rounding of bf16 copies.
  Optimizer(Backend& backend, std::span<const Parameter> parameters, const OptimizerConfig& config,
            std::uint64_t seed = 0);

  // [1] f64, for the passes of a step.
  TensorView loss_sum() const { return sums_.rows(sums_.elements() - 1, sums_.elements()); }
  // Waits for the passes, the only time in a step. The squares are summed tensor by tensor in f64,
  // in a fixed order.
  StepSums step_sums();
  // One update. `update` counts from 1 (the bias correction); the norm is that of step_sums().
  void update(std::int64_t update, double learning_rate, double gradient_norm);

  // The moments as "m.NAME" and "v.NAME", for checkpoints.
  std::vector<NamedTensor> state() const;

  // What the constructor allocates for that many parameters.
  static std::vector<MemoryLine> memory(std::int64_t parameters);

 private:
  Backend& backend_;
  std::span<const Parameter> parameters_;
  OptimizerConfig config_;
  std::uint64_t seed_;
  std::unique_ptr<DeviceMemory> moments_memory_;
  std::unique_ptr<DeviceMemory> sums_memory_;
  std::unique_ptr<DeviceMemory> clip_memory_;
  std::vector<TensorView> m_;  // [n] each
  std::vector<TensorView> v_;
  TensorView sums_;  // [parameters + 1] f64: squares of gradients, losses
  TensorView clip_;  // [1]
  std::vector<double> host_sums_;
};

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/communicator.h"
#include "model/transformer.h"
#include "train/tensor_files.h"
#include "train/train_config.h"

namespace flywheel {

// What the passes of a step came to, on all ranks.
struct StepSums {
  double losses = 0;
  double gradient_norm = 0;  // root of the sum of squares over all parameters
  std::string culprit;       // the first parameter whose gradient is not finite; empty: none
};

// The moments of all parameters as "m.NAME" and "v.NAME", for checkpoints.
struct OptimizerState {
  std::unique_ptr<DeviceMemory> memory;  // null: the tensors are the optimizer's own
  std::vector<NamedTensor> tensors;
};

// AdamW over a model's parameters: two moments each, the gradient clipped by its global norm.
// Sharded (ZeRO-1, Rajbhandari et al. 2020), a rank has the moments of its part of the parameters,
// updates that part and gets the others; else every rank updates all. All ranks call the same. In
// bf16 a rank gets the others' copies only, and their float32 weights with state().
class Optimizer {
 public:
  // Allocates the moments, zeroed. `model` and `ranks` outlive this.
  // `seed`: of the rounding of bf16 copies.
  Optimizer(Backend& backend, const Transformer& model, Communicator& ranks,
            const OptimizerConfig& config, bool sharded, std::uint64_t seed = 0);

  // [1] f64, for the passes of a step.
  TensorView loss_sum() const { return sums_.rows(sums_.elements() - 1, sums_.elements()); }
  // Starts to add up the ranks' gradients of a bucket, which are ready.
  void reduce(std::size_t bucket);
  // Waits for the passes and for all buckets, the only time in a step, and adds up the losses. The
  // squares are summed tensor by tensor in f64, in a fixed order.
  StepSums step_sums();
  // One update. `update` counts from 1 (the bias correction); the norm is that of step_sums().
  void update(std::int64_t update, double learning_rate, double gradient_norm);

  // All moments; the model then has all weights. Sharded, they are gathered in memory of their own.
  OptimizerState state();
  // Room for all moments, and taking over what was read into it.
  OptimizerState room_for_state();
  void adopt(const OptimizerState& state);

  // What the constructor allocates for so many elements of the parameters' slab, not sharded.
  static std::vector<MemoryLine> memory(std::int64_t elements);

 private:
  struct Bucket {
    Part all;              // of the slab
    Part own;              // what this rank updates of it
    std::int64_t moments;  // where those of `own` begin
  };
  // What one parameter has in the own parts of the slab.
  struct Piece {
    std::size_t parameter;
    Part elements;         // of the slab
    std::int64_t first;    // element of the parameter
    std::int64_t moments;  // where its moments begin
  };
  void divide(std::span<const SlabRange> buckets);
  void list_pieces(const Bucket& bucket);
  void gather(const TensorView& slab);
  std::pair<TensorView, TensorView> moments_in(const OptimizerState& state) const;
  static TensorView own_moments(const TensorView& moments, const Bucket& bucket);

  Backend& backend_;
  Communicator& ranks_;
  bool sharded_;
  std::span<const Parameter> parameters_;
  OptimizerConfig config_;
  std::uint64_t seed_;
  TensorView values_;     // the parameters' slab
  TensorView gradients_;  // alike
  TensorView copies_;     // alike in bf16; empty in float32
  std::vector<Bucket> buckets_;
  std::vector<Piece> pieces_;
  std::unique_ptr<DeviceMemory> moments_memory_;
  std::unique_ptr<DeviceMemory> sums_memory_;
  std::unique_ptr<DeviceMemory> clip_memory_;
  TensorView m_;  // of the own parts, one after another
  TensorView v_;
  TensorView sums_;  // [parameters + 1] f64: squares of gradients, losses
  TensorView clip_;  // [1]
  std::vector<double> host_sums_;
};

}  // namespace flywheel

#pragma once

#include "model/activations.h"

namespace flywheel {

// Decides which buffers a model needs, which are kept for backward and when the others are alive.
class ActivationPlanner {
 public:
  ActivationPlanner(const ModelConfig& config, const TransformerLimits& limits,
                    std::int64_t loss_chunk, MemoryPlan& kept, MemoryPlan& workspace);
  ModelBuffers plan();

 private:
  // What is alive: forward through a layer; head and loss; a layer's recomputation; backward of its
  // MLP and of its attention.
  static constexpr MemoryPlan::Phases kForward = 1, kLoss = 2, kRecompute = 4, kBackwardMlp = 8,
                                      kBackwardAttention = 16;
  static constexpr MemoryPlan::Phases kBackward = kRecompute | kBackwardMlp | kBackwardAttention;

  // From which policy on a value is recomputed rather than kept.
  enum class Kept { Always, UnlessLayer, OnlyIfNone };
  bool keeps(Kept kept) const;

  Buffer keep(const std::string& name, std::int64_t width, DType dtype = DType::F32,
              std::int64_t rows = 0);
  Buffer share(const std::string& name, std::int64_t width, MemoryPlan::Phases phases,
               std::int64_t rows = 0);
  // Kept under some policies; elsewhere shared, and alive in `phases` or, if layers are recomputed,
  // in all.
  Buffer saved(Kept kept, const std::string& line, const std::string& name, std::int64_t width,
               MemoryPlan::Phases phases);

  NormBuffers norm(const std::string& name, MemoryPlan::Phases phases);
  LayerBuffers layer(const LayerAttention& attention);
  void attention(LayerBuffers& layer, const LayerAttention& attention);
  void experts(LayerBuffers& layer);
  void plan_gradients(ModelBuffers& buffers, const std::vector<LayerAttention>& layers);

  const ModelConfig& config_;
  const TransformerLimits& limits_;
  std::int64_t loss_chunk_;
  MemoryPlan& kept_;
  MemoryPlan& workspace_;
  std::vector<Buffer> shared_;
};

}  // namespace flywheel

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

  struct Request {
    std::string name;
    std::int64_t width = 0;
    DType dtype = DType::F32;
    std::int64_t rows = 0;  // 0: one a token
  };
  // In the type of the model's precision.
  Request activation(const std::string& name, std::int64_t width, std::int64_t rows = 0) const {
    return {name, width, type_, rows};
  }
  std::int64_t bytes(const Request& request) const;
  Buffer keep(const Request& request);
  Buffer share(const Request& request, MemoryPlan::Phases phases);
  // Kept under some policies; elsewhere shared, and alive in `phases` or, if layers are recomputed,
  // in all.
  Buffer saved(Kept kept, const std::string& line, Request request, MemoryPlan::Phases phases);

  NormBuffers norm(const std::string& name, MemoryPlan::Phases phases);
  LayerBuffers layer(const LayerAttention& attention);
  void attention(LayerBuffers& layer, const LayerAttention& attention);
  void experts(LayerBuffers& layer);
  void plan_gradients(ModelBuffers& buffers, const std::vector<LayerAttention>& layers);

  const ModelConfig& config_;
  const TransformerLimits& limits_;
  std::int64_t loss_chunk_;
  DType type_;
  MemoryPlan& kept_;
  MemoryPlan& workspace_;
  std::vector<Buffer> shared_;
};

}  // namespace flywheel

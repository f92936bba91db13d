#include "model/layer.h"

namespace flywheel {

MlpBranch::MlpBranch(const ModelConfig& config, const LayerSlots& slots,
                     const ParameterSlabs& slabs)
    : kind_(config.mlp), in_(slots.mlp_in, slabs), out_(slots.mlp_out, slabs) {
  if (config.experts.count > 0) experts_.emplace(config, slots, slabs);
}

void MlpBranch::forward(const Pass& pass, const LayerBuffers& layer) const {
  if (experts_) return experts_->forward(pass, layer);
  const TensorView in = pass.matrix(layer.mlp_in);
  const TensorView act = pass.matrix(layer.mlp_act);
  in_.forward(pass.backend, in, pass.matrix(layer.mlp_norm.out), pass.decode);
  if (kind_ == MlpKind::Swiglu) {
    ops::swiglu_forward(pass.backend, {.out = act, .gate_up = in});
  } else {
    ops::gelu_forward(pass.backend, {.out = act, .x = in});
  }
}

void MlpBranch::project(const Pass& pass, const LayerBuffers& layer) const {
  if (experts_) return experts_->project(pass, layer);
  out_.forward(pass.backend, pass.matrix(pass.buffers().branch), pass.matrix(layer.mlp_act),
               pass.decode);
}

void MlpBranch::backward(const Pass& pass, const LayerBuffers& layer) const {
  const TensorView in = pass.matrix(layer.mlp_in);  // its gradient takes its place
  const TensorView dact = pass.matrix(pass.buffers().dmlp_act);
  out_.backward(pass.backend, dact, pass.matrix(pass.buffers().dx), pass.matrix(layer.mlp_act));
  if (kind_ == MlpKind::Swiglu) {
    ops::swiglu_backward(pass.backend, {.dgate_up = in, .dout = dact, .gate_up = in});
  } else {
    ops::gelu_backward(pass.backend, {.dx = in, .dout = dact, .x = in});
  }
  in_.backward(pass.backend, pass.matrix(pass.buffers().dnorm), in,
               pass.matrix(layer.mlp_norm.out));
}

}  // namespace flywheel

#pragma once

#include "core/float16.h"
#include "support/observed_backend.h"

namespace flywheel::test {

// A float32 backend in the memory of the host that rounds to bf16 what a backend in bf16 stores as
// that: the naive computation in bf16, op by op.
class RoundingBackend final : public ObservedBackend {
 public:
  explicit RoundingBackend(Backend& inner) : ObservedBackend(inner) {}

  void matmul(const Matmul& a) override {
    ObservedBackend::matmul(a);
    const bool weight_gradient = a.transpose_a && a.accumulate;
    if (!weight_gradient) round(a.out);
  }
  void embedding_forward(const EmbeddingForward& a) override {
    ObservedBackend::embedding_forward(a);
    round(a.out);
  }
  void rms_norm_forward(const RmsNormForward& a) override {
    ObservedBackend::rms_norm_forward(a);
    round(a.out);
  }
  void add_rms_norm_forward(const AddRmsNormForward& a) override {
    add({.out = a.sum, .a = a.x, .b = a.residual});
    rms_norm_forward({.out = a.out, .rstd = a.rstd, .x = a.sum, .weight = a.weight, .eps = a.eps});
  }
  void rms_norm_backward(const RmsNormBackward& a) override {
    ObservedBackend::rms_norm_backward(a);
    round(a.dx);
  }
  void layer_norm_forward(const LayerNormForward& a) override {
    ObservedBackend::layer_norm_forward(a);
    round(a.out);
  }
  void layer_norm_backward(const LayerNormBackward& a) override {
    ObservedBackend::layer_norm_backward(a);
    round(a.dx);
  }
  void split_heads_forward(const SplitHeadsForward& a) override {
    ObservedBackend::split_heads_forward(a);
    for (const TensorView& out : {a.q, a.k, a.v}) round(out);
  }
  void split_heads_backward(const SplitHeadsBackward& a) override {
    ObservedBackend::split_heads_backward(a);
    round(a.dqkv);
  }
  void attention_forward(const AttentionForward& a) override {
    ObservedBackend::attention_forward(a);
    round(a.out);
  }
  void attention_backward(const AttentionBackward& a) override {
    ObservedBackend::attention_backward(a);
    for (const TensorView& out : {a.dq, a.dk, a.dv}) round(out);
  }
  void gate_mix_forward(const GateMixForward& a) override {
    ObservedBackend::gate_mix_forward(a);
    round(a.out);
  }
  void gate_mix_backward(const GateMixBackward& a) override {
    ObservedBackend::gate_mix_backward(a);
    for (const TensorView& out : {a.da, a.db, a.dgate_logits}) round(out);
  }
  void swiglu_forward(const SwigluForward& a) override {
    ObservedBackend::swiglu_forward(a);
    round(a.out);
  }
  void swiglu_backward(const SwigluBackward& a) override {
    ObservedBackend::swiglu_backward(a);
    round(a.dgate_up);
  }
  void gelu_forward(const GeluForward& a) override {
    ObservedBackend::gelu_forward(a);
    round(a.out);
  }
  void gelu_backward(const GeluBackward& a) override {
    ObservedBackend::gelu_backward(a);
    round(a.dx);
  }
  void cross_entropy(const CrossEntropy& a) override {
    ObservedBackend::cross_entropy(a);
    round(a.logits);
  }
  void add(const Add& a) override {
    ObservedBackend::add(a);
    round(a.out);
  }

 private:
  static void round(const TensorView& view) {
    const Shape& shape = view.shape;
    for (std::int64_t index = 0; index < shape.elements(); ++index) {
      std::int64_t rest = index;
      std::int64_t offset = 0;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        offset += rest % shape[axis] * view.stride(axis);
        rest /= shape[axis];
      }
      float& x = view.f32()[offset];
      x = bf16_to_float(float_to_bf16(x));
    }
  }
};

}  // namespace flywheel::test

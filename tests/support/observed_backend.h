#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace flywheel::test {

// A backend that hands everything on to another and writes down what is allocated.
class ObservedBackend : public Backend {
 public:
  explicit ObservedBackend(Backend& inner) : inner_(inner) {}

  const std::vector<std::pair<std::string, std::int64_t>>& allocations() const {
    return allocations_;
  }

  DeviceKind device() const override { return inner_.device(); }
  std::string description() const override { return inner_.description(); }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t bytes, const std::string& name) override {
    allocations_.emplace_back(name, bytes);
    return inner_.allocate(bytes, name);
  }
  void upload(const TensorView& out, const void* host) override { inner_.upload(out, host); }
  void download(void* host, const TensorView& x) override { inner_.download(host, x); }
  void synchronize() override { inner_.synchronize(); }
  bool interleaves_weights() const override { return inner_.interleaves_weights(); }
  std::int64_t attention_tile() const override { return inner_.attention_tile(); }
  void upload_plan(const AttentionPlan& plan) override { inner_.upload_plan(plan); }

  void matmul(const Matmul& a) override { inner_.matmul(a); }
  void bias_backward(const BiasBackward& a) override { inner_.bias_backward(a); }
  void embedding_forward(const EmbeddingForward& a) override { inner_.embedding_forward(a); }
  void embedding_backward(const EmbeddingBackward& a) override { inner_.embedding_backward(a); }
  void rms_norm_forward(const RmsNormForward& a) override { inner_.rms_norm_forward(a); }
  void add_rms_norm_forward(const AddRmsNormForward& a) override { inner_.add_rms_norm_forward(a); }
  void rms_norm_backward(const RmsNormBackward& a) override { inner_.rms_norm_backward(a); }
  void layer_norm_forward(const LayerNormForward& a) override { inner_.layer_norm_forward(a); }
  void layer_norm_backward(const LayerNormBackward& a) override { inner_.layer_norm_backward(a); }
  void split_heads_forward(const SplitHeadsForward& a) override { inner_.split_heads_forward(a); }
  void split_heads_backward(const SplitHeadsBackward& a) override {
    inner_.split_heads_backward(a);
  }
  void attention_forward(const AttentionForward& a) override { inner_.attention_forward(a); }
  void attention_backward(const AttentionBackward& a) override { inner_.attention_backward(a); }
  void kv_cache_write(const KvCacheWrite& a) override { inner_.kv_cache_write(a); }
  void attention_decode(const AttentionDecode& a) override { inner_.attention_decode(a); }
  void gate_mix_forward(const GateMixForward& a) override { inner_.gate_mix_forward(a); }
  void gate_mix_backward(const GateMixBackward& a) override { inner_.gate_mix_backward(a); }
  void swiglu_forward(const SwigluForward& a) override { inner_.swiglu_forward(a); }
  void swiglu_backward(const SwigluBackward& a) override { inner_.swiglu_backward(a); }
  void route_experts(const RouteExperts& a) override { inner_.route_experts(a); }
  void grouped_matmul(const GroupedMatmul& a) override { inner_.grouped_matmul(a); }
  void combine_experts(const CombineExperts& a) override { inner_.combine_experts(a); }
  void gelu_forward(const GeluForward& a) override { inner_.gelu_forward(a); }
  void gelu_backward(const GeluBackward& a) override { inner_.gelu_backward(a); }
  void cross_entropy(const CrossEntropy& a) override { inner_.cross_entropy(a); }
  void adamw_step(const AdamWStep& a) override { inner_.adamw_step(a); }
  void round_weights(const RoundWeights& a) override { inner_.round_weights(a); }
  void sum(const Sum& a) override { inner_.sum(a); }
  void sum_of_squares(const SumOfSquares& a) override { inner_.sum_of_squares(a); }
  void add(const Add& a) override { inner_.add(a); }
  void scale(const Scale& a) override { inner_.scale(a); }
  void fill(const Fill& a) override { inner_.fill(a); }
  void copy(const Copy& a) override { inner_.copy(a); }

 private:
  Backend& inner_;
  std::vector<std::pair<std::string, std::int64_t>> allocations_;
};

}  // namespace flywheel::test

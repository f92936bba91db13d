#include "simt/attention_bf16.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention/plan.h"
#include "core/float16.h"
#include "cuda/attention_plans.h"
#include "cuda/device/check.h"
#include "cuda/kernels/kernels.h"
#include "support/catch.h"

namespace flywheel::test {
namespace {

float to_bf16(double x) {
  return bf16_to_float(float_to_bf16(static_cast<float>(x)));
}

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// [T, heads, D] in bf16 on the device.
class DeviceTensor {
 public:
  DeviceTensor(const std::vector<float>& values, std::int64_t heads, std::int64_t size)
      : memory_(std::ssize(values) * 2, "a tensor"), bits_(values.size()) {
    std::transform(values.begin(), values.end(), bits_.begin(), float_to_bf16);
    cuda::check(cudaMemcpy(memory_.data(), bits_.data(), bits_.size() * 2, cudaMemcpyHostToDevice),
                "upload");
    const std::int64_t tokens = std::ssize(values) / (heads * size);
    view = {memory_.data(), DType::BF16, Shape{tokens, heads, size}, DeviceKind::Cuda};
  }
  std::vector<float> read() {
    cuda::check(cudaMemcpy(bits_.data(), memory_.data(), bits_.size() * 2, cudaMemcpyDeviceToHost),
                "download");
    std::vector<float> values(bits_.size());
    std::transform(bits_.begin(), bits_.end(), values.begin(), bf16_to_float);
    return values;
  }

  TensorView view;

 private:
  cuda::Memory memory_;
  std::vector<std::uint16_t> bits_;
};

// A vector as it is on the device; an empty view of an empty one.
class DeviceVector {
 public:
  template <class T>
  DeviceVector(const std::vector<T>& values, DType type, const Shape& shape)
      : memory_(std::ssize(values) * 4, "a vector") {
    if (values.empty()) return;
    cuda::check(
        cudaMemcpy(memory_.data(), values.data(), values.size() * 4, cudaMemcpyHostToDevice),
        "upload");
    view = {memory_.data(), type, shape, DeviceKind::Cuda};
  }

  TensorView view;

 private:
  cuda::Memory memory_;
};

// The naive loops over one query row of one head.
class RoundedRow {
 public:
  RoundedRow(const AttentionCase& c, AttentionTensors<double>& x, std::int64_t head)
      : c_(c), x_(x), head_(head), kv_head_(head / (c.heads / c.kv_heads)) {}

  void run(std::int64_t token, const std::vector<std::int64_t>& keys) {
    forward(token, keys);
    backward(token, keys);
  }

 private:
  double* query(std::vector<double>& x, std::int64_t token) {
    return &x[at((token * c_.heads + head_) * c_.head_size)];
  }
  double* key(std::vector<double>& x, std::int64_t token) {
    return &x[at((token * c_.kv_heads + kv_head_) * c_.head_size)];
  }
  double dot(const double* a, const double* b) const {
    double sum = 0;
    for (std::int64_t i = 0; i < c_.head_size; ++i) sum += a[i] * b[i];
    return sum;
  }
  void add(double* to, double factor, const double* from) const {
    for (std::int64_t i = 0; i < c_.head_size; ++i) to[i] += factor * from[i];
  }

  void forward(std::int64_t token, const std::vector<std::int64_t>& keys) {
    double top = -INFINITY;
    for (const std::int64_t j : keys) top = std::max(top, score(token, j));
    double* out = query(x_.out, token);
    double sum = 0;
    for (const std::int64_t j : keys) {
      const double weight = std::exp(score(token, j) - top);
      sum += weight;
      add(out, to_bf16(weight), key(x_.v, j));
    }
    for (std::int64_t i = 0; i < c_.head_size; ++i) out[i] = to_bf16(out[i] / sum);
    x_.lse[at(head_ * c_.tokens() + token)] = top + std::log(sum);
  }

  void backward(std::int64_t token, const std::vector<std::int64_t>& keys) {
    const double* dout = query(x_.dout, token);
    const double delta = dot(dout, query(x_.out, token));
    for (const std::int64_t j : keys) {
      const double lse = x_.lse[at(head_ * c_.tokens() + token)];
      const double weight = std::exp(score(token, j) - lse);
      const double dscore = to_bf16(weight * (dot(dout, key(x_.v, j)) - delta));
      add(query(x_.dq, token), dscore * c_.scale(), key(x_.k, j));
      add(key(x_.dk, j), dscore * c_.scale(), query(x_.q, token));
      add(key(x_.dv, j), to_bf16(weight), dout);
    }
  }

  double score(std::int64_t token, std::int64_t j) {
    return c_.scale() * dot(query(x_.q, token), key(x_.k, j));
  }

  const AttentionCase& c_;
  AttentionTensors<double>& x_;
  std::int64_t head_;
  std::int64_t kv_head_;
};

// Tokens that query i of a sequence of n tokens, which starts at token `begin`, sees.
std::vector<std::int64_t> visible_keys(const AttentionCase& c, const AttentionTensors<double>& x,
                                       std::span<const std::int32_t> sigma, std::int64_t begin,
                                       std::int64_t n, std::int64_t i, std::int64_t h) {
  std::vector<std::int64_t> keys;
  if (c.pattern.kind == AttentionKind::Moba) {
    const std::int64_t block = c.pattern.block;
    for (const std::int64_t b : choose_blocks(c, x, begin, i, h).blocks) {
      for (std::int64_t j = b * block; j < std::min((b + 1) * block, i + 1); ++j) {
        keys.push_back(begin + j);
      }
    }
    return keys;
  }
  for (std::int64_t j = 0; j <= i; ++j) {
    if (visible(c.pattern, sigma, n, i, j)) keys.push_back(begin + j);
  }
  return keys;
}

void rounded_attention(const AttentionCase& c, AttentionTensors<double>& x) {
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s) {
    const std::int64_t begin = c.cu_seqlens[s];
    const std::int64_t n = c.cu_seqlens[s + 1] - begin;
    const auto number =
        c.pattern.per_sequence ? c.first_sequence + static_cast<std::uint32_t>(s) : 0;
    const std::vector<std::int32_t> sigma = reference_permutation(c.key, number, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        RoundedRow(c, x, h).run(begin + i, visible_keys(c, x, sigma, begin, n, i, h));
      }
    }
  }
  if (c.rope) naive_turn_back(c, x);
  for (std::vector<double>* gradient : {&x.dq, &x.dk, &x.dv}) {
    for (double& value : *gradient) value = to_bf16(value);
  }
}

template <class Real>
double largest_error(const std::vector<Real>& x, const std::vector<double>& exact) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - exact[i]);
    if (std::isnan(error)) return INFINITY;
    largest = std::max(largest, error);
  }
  return largest;
}

}  // namespace

AttentionTensors<float> random_bf16_inputs(const AttentionCase& c, std::uint64_t seed) {
  AttentionTensors<float> in = random_attention_inputs(c, seed);
  for (std::vector<float>* x : {&in.q, &in.k, &in.v, &in.dout, &in.dq, &in.dk, &in.dv}) {
    for (float& value : *x) value = to_bf16(value);
  }
  silence_close_choices(c, in);
  return in;
}

AttentionTensors<float> run_attention_bf16(const AttentionCase& c,
                                           const AttentionTensors<float>& in) {
  AttentionPlan plan(c.pattern, cuda::kAttentionTile, c.tokens(), std::ssize(c.cu_seqlens) - 1);
  plan.prepare(c.cu_seqlens, c.key, c.first_sequence);
  cuda::Uploads uploads;
  const cuda::Stream stream;
  cuda::AttentionPlans plans;
  plans.upload(plan, uploads, stream);
  const cuda::Memory memory(1 << 20, "workspace");
  const cuda::Workspace workspace{memory.data(), memory.bytes()};
  const auto query = [&](const std::vector<float>& x) {
    return DeviceTensor(x, c.heads, c.head_size);
  };
  const auto key = [&](const std::vector<float>& x) {
    return DeviceTensor(x, c.kv_heads, c.head_size);
  };
  DeviceTensor q = query(in.q);
  DeviceTensor k = key(in.k);
  DeviceTensor v = key(in.v);
  DeviceTensor out = query(in.out);
  DeviceTensor dout = query(in.dout);
  DeviceTensor dq = query(in.dq);
  DeviceTensor dk = key(in.dk);
  DeviceTensor dv = key(in.dv);
  const Shape angles{kRopePositions, c.head_size / 2};
  const DeviceVector cos(in.cos, DType::F32, angles);
  const DeviceVector sin(in.sin, DType::F32, angles);
  const DeviceVector positions(in.positions, DType::I32, Shape{c.tokens()});
  const cuda::Memory lse(c.heads * c.tokens() * 4, "lse");
  const TensorView lse_view(lse.data(), DType::F32, Shape{c.heads, c.tokens()}, DeviceKind::Cuda);

  cuda::attention_forward({out.view, lse_view, q.view, k.view, v.view, &plan, c.scale()},
                          plans.at(plan), workspace, stream.get());
  cuda::attention_backward({.dq = dq.view,
                            .dk = dk.view,
                            .dv = dv.view,
                            .dout = dout.view,
                            .out = out.view,
                            .lse = lse_view,
                            .q = q.view,
                            .k = k.view,
                            .v = v.view,
                            .cos = cos.view,
                            .sin = sin.view,
                            .positions = positions.view,
                            .plan = &plan,
                            .scale = c.scale(),
                            .accumulate = c.accumulate},
                           plans.at(plan), workspace, stream.get());
  stream.synchronize();
  AttentionTensors<float> result = in;
  result.out = out.read();
  cuda::check(
      cudaMemcpy(result.lse.data(), lse.data(), result.lse.size() * 4, cudaMemcpyDeviceToHost),
      "download");
  result.dq = dq.read();
  result.dk = dk.read();
  result.dv = dv.read();
  return result;
}

void check_attention_bf16(const AttentionCase& c, const AttentionTensors<float>& in,
                          AttentionTensors<float> result) {
  AttentionTensors<double> exact = to_double(in);
  naive_attention_forward(c, exact);
  forgive_close_choices(c, exact, result);
  naive_attention_backward(c, exact);
  AttentionTensors<double> naive = to_double(in);
  rounded_attention(c, naive);
  const auto check = [](const char* name, const std::vector<float>& kernel,
                        const std::vector<double>& rounded, const std::vector<double>& truth) {
    constexpr double kFloatNoise = 1e-5;
    const double bound = 2 * largest_error(rounded, truth) + kFloatNoise;
    const double error = largest_error(kernel, truth);
    INFO(name << ": error " << error << " against " << bound << " allowed");
    REQUIRE(error <= bound);
  };
  check("out", result.out, naive.out, exact.out);
  check("lse", result.lse, naive.lse, exact.lse);
  check("dq", result.dq, naive.dq, exact.dq);
  check("dk", result.dk, naive.dk, exact.dk);
  check("dv", result.dv, naive.dv, exact.dv);
}

}  // namespace flywheel::test

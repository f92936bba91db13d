#include "cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "attention/plan.h"

namespace flywheel::cpu {
namespace {

// A sequence's visible sets, rank by position.
class Visible {
 public:
  Visible(const AttentionPlan& plan, std::int64_t s)
      : pattern_(plan.pattern()), n_(plan.length(s)) {
    if (pattern_.kind != AttentionKind::Sa) return;
    rank_.resize(static_cast<std::size_t>(n_));
    const auto begin = static_cast<std::size_t>(plan.cu_seqlens()[static_cast<std::size_t>(s)]);
    for (std::size_t i = begin; i < begin + rank_.size(); ++i) {
      rank_[static_cast<std::size_t>(plan.slot_position()[i])] = plan.slot_rank()[i];
    }
  }
  bool operator()(std::int64_t i, std::int64_t j) const {
    if (pattern_.sees_all(n_)) return true;
    if (pattern_.kind == AttentionKind::Swa) return i - j < pattern_.window;
    std::int64_t d =
        rank_[static_cast<std::size_t>(i)] - rank_[static_cast<std::size_t>(j)] + pattern_.offset();
    if (pattern_.circular) d = ((d % n_) + n_) % n_;
    return d >= 0 && d < pattern_.slots();
  }

 private:
  AttentionPattern pattern_;
  std::int64_t n_;
  std::vector<std::int32_t> rank_;
};

float* row(const TensorView& x, std::int64_t token, std::int64_t head) {
  return x.f32() + token * x.stride(0) + head * x.stride(1);
}

float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
  for (std::int64_t c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

void axpy(float* out, float factor, const float* x, std::int64_t size) {
  for (std::int64_t c = 0; c < size; ++c) out[c] += factor * x[c];
}

}  // namespace

void attention_forward(const AttentionForward& a, ThreadPool& pool, AttentionWorkspace&) {
  const std::int64_t heads = a.q.shape[1];
  const std::int64_t head_size = a.q.shape[2];
  const std::int64_t ratio = heads / a.k.shape[1];
  pool.for_each(a.plan->sequences() * heads, [&](std::int64_t task, int) {
    const std::int64_t s = task / heads;
    const std::int64_t h = task % heads;
    const std::int64_t begin = a.plan->cu_seqlens()[static_cast<std::size_t>(s)];
    const Visible visible(*a.plan, s);
    for (std::int64_t i = 0; i < a.plan->length(s); ++i) {
      const float* q = row(a.q, begin + i, h);
      float* out = row(a.out, begin + i, h);
      float max = -INFINITY;
      for (std::int64_t j = 0; j <= i; ++j) {
        if (!visible(i, j)) continue;
        max = std::max(max, a.scale * dot(q, row(a.k, begin + j, h / ratio), head_size));
      }
      std::fill_n(out, head_size, 0.F);
      float sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        if (!visible(i, j)) continue;
        const float p = std::exp(a.scale * dot(q, row(a.k, begin + j, h / ratio), head_size) - max);
        sum += p;
        axpy(out, p, row(a.v, begin + j, h / ratio), head_size);
      }
      for (std::int64_t c = 0; c < head_size; ++c) out[c] /= sum;
      a.lse.f32()[h * a.q.shape[0] + begin + i] = max + std::log(sum);
    }
  });
}

void attention_backward(const AttentionBackward& a, ThreadPool& pool, AttentionWorkspace&) {
  const std::int64_t heads = a.k.shape[1];
  const std::int64_t head_size = a.q.shape[2];
  const std::int64_t ratio = a.q.shape[1] / heads;
  pool.for_each(a.plan->sequences() * heads, [&](std::int64_t task, int) {
    const std::int64_t s = task / heads;
    const std::int64_t kv = task % heads;
    const std::int64_t begin = a.plan->cu_seqlens()[static_cast<std::size_t>(s)];
    const Visible visible(*a.plan, s);
    for (std::int64_t j = 0; j < a.plan->length(s) && !a.accumulate; ++j) {
      std::fill_n(row(a.dk, begin + j, kv), head_size, 0.F);
      std::fill_n(row(a.dv, begin + j, kv), head_size, 0.F);
    }
    for (std::int64_t h = kv * ratio; h < (kv + 1) * ratio; ++h) {
      for (std::int64_t i = 0; i < a.plan->length(s); ++i) {
        const float* q = row(a.q, begin + i, h);
        const float* dout = row(a.dout, begin + i, h);
        float* dq = row(a.dq, begin + i, h);
        const float lse = a.lse.f32()[h * a.q.shape[0] + begin + i];
        const float delta = dot(dout, row(a.out, begin + i, h), head_size);
        if (!a.accumulate) std::fill_n(dq, head_size, 0.F);
        for (std::int64_t j = 0; j <= i; ++j) {
          if (!visible(i, j)) continue;
          const float* k = row(a.k, begin + j, kv);
          const float p = std::exp(a.scale * dot(q, k, head_size) - lse);
          const float ds = p * (dot(dout, row(a.v, begin + j, kv), head_size) - delta) * a.scale;
          axpy(row(a.dv, begin + j, kv), p, dout, head_size);
          axpy(row(a.dk, begin + j, kv), ds, q, head_size);
          axpy(dq, ds, k, head_size);
        }
      }
    }
  });
}

}  // namespace flywheel::cpu

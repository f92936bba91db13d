#pragma once

#include <span>
#include <vector>

#include "analysis/attention_band.h"
#include "core/thread_pool.h"

namespace flywheel {

// Uniform attention of one layer as a row-stochastic matrix A of n x n, never built: (A x)_i is the
// mean of x over the keys that query i sees. The two paths of a gated layer are averaged, as gates
// do before training. O(n slots) a product; O(n) for swa and full.
class AttentionOperator {
 public:
  explicit AttentionOperator(LayerBands bands);

  std::int64_t size() const { return bands_.front().size(); }
  void apply(std::span<const double> x, std::span<double> y, ThreadPool& pool) const;  // y = A x
  void apply_transposed(std::span<const double> x, std::span<double> y,
                        ThreadPool& pool) const;  // y = A^T x

 private:
  LayerBands bands_;
  std::vector<std::vector<double>> weights_;  // of each band: 1 / (keys of query i * bands)
};

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/attention_band.h"
#include "core/thread_pool.h"

namespace flywheel {

// The receptive fields of all n queries as rows of bits: two copies of n^2 / 8 bytes.
class ReceptiveFields {
 public:
  ReceptiveFields(std::int64_t n, Mask mask);  // each query alone

  // Puts a layer on top: R(i) becomes the union of the R(j) of all keys j that i sees.
  void add_layer(const LayerBands& layer, ThreadPool& pool);

  std::int64_t count(std::int64_t i) const { return counts_[static_cast<std::size_t>(i)]; }

 private:
  std::span<std::uint64_t> row(std::vector<std::uint64_t>& rows, std::int64_t i) const;
  std::int64_t whole(std::int64_t i) const { return causal_ ? i + 1 : n_; }
  void unite(const LayerBands& layer, std::int64_t i);

  std::int64_t n_;
  bool causal_;
  std::vector<std::uint64_t> rows_, next_;
  std::vector<std::int64_t> counts_;
};

// The receptive field of one query at a time, in O(n) memory.
class ReceptiveFieldWalk {
 public:
  // |R(i)| after each layer.
  std::vector<std::int64_t> counts(const std::vector<LayerBands>& layers, std::int64_t i);

 private:
  // Of the layers below `depth`, the uppermost first.
  std::int64_t count_below(const std::vector<LayerBands>& layers, std::size_t depth,
                           std::int64_t i);

  std::vector<std::uint8_t> set_, image_;
  std::vector<std::int32_t> scratch_;
};

}  // namespace flywheel

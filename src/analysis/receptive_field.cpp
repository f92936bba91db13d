#include "analysis/receptive_field.h"

#include <bit>
#include <numeric>

namespace flywheel {
namespace {

constexpr std::int64_t kWordBits = 64;

std::int64_t words_for(std::int64_t bits) {
  return (bits + kWordBits - 1) / kWordBits;
}

}  // namespace

ReceptiveFields::ReceptiveFields(std::int64_t n, Mask mask)
    : n_(n),
      causal_(mask == Mask::Causal),
      rows_(static_cast<std::size_t>(n * words_for(n))),
      next_(rows_.size()),
      counts_(static_cast<std::size_t>(n), 1) {
  for (std::int64_t i = 0; i < n; ++i) {
    row(rows_, i)[static_cast<std::size_t>(i / kWordBits)] = std::uint64_t{1} << (i % kWordBits);
  }
}

// As many words as the query's whole field has.
std::span<std::uint64_t> ReceptiveFields::row(std::vector<std::uint64_t>& rows,
                                              std::int64_t i) const {
  return std::span(rows).subspan(static_cast<std::size_t>(i * words_for(n_)),
                                 static_cast<std::size_t>(words_for(whole(i))));
}

void ReceptiveFields::unite(const LayerBands& layer, std::int64_t i) {
  const std::span<std::uint64_t> out = row(next_, i);
  const std::span<std::uint64_t> own = row(rows_, i);
  std::copy(own.begin(), own.end(), out.begin());
  std::int64_t& count = counts_[static_cast<std::size_t>(i)];
  if (count == whole(i)) return;
  for (const AttentionBand& band : layer) {
    band.visit_keys(i, [&](std::int64_t j) {
      const std::span<const std::uint64_t> key = row(rows_, j);
      for (std::size_t w = 0; w < key.size(); ++w) out[w] |= key[w];
    });
  }
  count = std::transform_reduce(out.begin(), out.end(), std::int64_t{0}, std::plus<>(),
                                [](std::uint64_t word) { return std::popcount(word); });
}

void ReceptiveFields::add_layer(const LayerBands& layer, ThreadPool& pool) {
  constexpr std::int64_t kChunk = 64;
  pool.for_each(words_for(n_), [&](std::int64_t chunk, int) {
    const std::int64_t end = std::min(n_, (chunk + 1) * kChunk);
    for (std::int64_t i = chunk * kChunk; i < end; ++i) unite(layer, i);
  });
  rows_.swap(next_);
}

std::vector<std::int64_t> ReceptiveFieldWalk::counts(const std::vector<LayerBands>& layers,
                                                     std::int64_t i) {
  const AttentionBand& any = layers.front().front();
  const std::int64_t whole = any.causal() ? i + 1 : any.size();
  std::vector<std::int64_t> result;
  for (std::size_t depth = 1; depth <= layers.size(); ++depth) {
    // A query sees itself, so that a field never shrinks.
    const bool full = !result.empty() && result.back() == whole;
    result.push_back(full ? whole : count_below(layers, depth, i));
  }
  return result;
}

std::int64_t ReceptiveFieldWalk::count_below(const std::vector<LayerBands>& layers,
                                             std::size_t depth, std::int64_t i) {
  const auto n = static_cast<std::size_t>(layers.front().front().size());
  set_.assign(n, 0);
  set_[static_cast<std::size_t>(i)] = 1;
  while (depth-- > 0) {
    image_.assign(n, 0);
    for (const AttentionBand& band : layers[depth]) band.add_image(set_, image_, scratch_);
    set_.swap(image_);
  }
  return std::reduce(set_.begin(), set_.end(), std::int64_t{0});
}

}  // namespace flywheel

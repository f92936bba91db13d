#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attention/pattern.h"
#include "attention/permutation.h"

namespace flywheel::test {

// docs/attention.md, word for word: whether query i sees key j in a sequence of n tokens with the
// ranks sigma. Not of moba, whose visible keys depend on the data.
bool visible(const AttentionPattern& pattern, std::span<const std::int32_t> sigma, std::int64_t n,
             std::int64_t i, std::int64_t j);

// The permutation from the bare generator and std::stable_sort.
std::vector<std::int32_t> reference_permutation(const PermutationKey& key, std::uint32_t sequence,
                                                std::int64_t n);

// What an attention call is about, tensors apart.
struct AttentionCase {
  AttentionPattern pattern;
  PermutationKey key;
  std::uint32_t first_sequence = 0;
  std::vector<std::int32_t> cu_seqlens;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_size = 8;
  bool rope = false;        // backward turns dq and dk back
  bool accumulate = false;  // backward adds to dq, dk and dv

  std::int64_t tokens() const { return cu_seqlens.back(); }
  float scale() const;
  std::string describe() const;
};

// Contiguous tensors: q, out, dout, dq [T, H, D]; k, v, dk, dv [T, Hkv, D]; lse [H, T]; of cases
// with RoPE cos, sin [P, D/2] and positions [T].
template <class Real>
struct AttentionTensors {
  std::vector<Real> q, k, v, dout;
  std::vector<Real> out, lse, dq, dk, dv;
  std::vector<Real> cos, sin;
  std::vector<std::int32_t> positions;
};

// Positions in RoPE's tables.
constexpr std::int64_t kRopePositions = 37;

// Standard normal inputs, a pure function of the seed, without gradients of close choices; outputs
// are sized, and zero unless they are added to. RoPE has random angles, and positions that begin at
// another place in every sequence and restart within.
AttentionTensors<float> random_attention_inputs(const AttentionCase& c, std::uint64_t seed);
AttentionTensors<double> to_double(const AttentionTensors<float>& x);

// moba: the blocks that a query sees, its own last, and by how much the last chosen one was better
// than the best of the others. In double, so that every precision chooses alike. The sequence
// starts at token `begin`, the query is its token i.
struct BlockChoice {
  std::vector<std::int64_t> blocks;
  double margin = std::numeric_limits<double>::infinity();
};
template <class Real>
BlockChoice choose_blocks(const AttentionCase& c, const AttentionTensors<Real>& x,
                          std::int64_t begin, std::int64_t i, std::int64_t h);

// moba: a choice is close if rounding may decide it. Equal gates are not close, as those of exact
// inputs are decided by the definition. What a close choice would change is left out of a check:
// before the passes, its row of dout is set to zero, so that no gradient depends on it; after them,
// its row of out and lse becomes the exact one. Error if there are more than a few.
void silence_close_choices(const AttentionCase& c, AttentionTensors<float>& x);
void forgive_close_choices(const AttentionCase& c, const AttentionTensors<double>& exact,
                           AttentionTensors<float>& x);

// The naive loops: scores of the visible keys, softmax, weighted sum. In double they are the
// reference of every kernel; in float, the yardstick of its error.
template <class Real>
void naive_attention_forward(const AttentionCase& c, AttentionTensors<Real>& x);
// Needs out and lse.
template <class Real>
void naive_attention_backward(const AttentionCase& c, AttentionTensors<Real>& x);

// Turns dq and dk back by RoPE.
template <class Real>
void naive_turn_back(const AttentionCase& c, AttentionTensors<Real>& x);

extern template void naive_attention_forward(const AttentionCase&, AttentionTensors<float>&);
extern template void naive_attention_forward(const AttentionCase&, AttentionTensors<double>&);
extern template void naive_attention_backward(const AttentionCase&, AttentionTensors<float>&);
extern template void naive_attention_backward(const AttentionCase&, AttentionTensors<double>&);
extern template void naive_turn_back(const AttentionCase&, AttentionTensors<double>&);

// Random patterns, options, lengths, heads, head sizes and kinds of backward; about `work`
// multiply-adds a product at most.
AttentionCase random_attention_case(std::uint64_t seed, double work);

}  // namespace flywheel::test

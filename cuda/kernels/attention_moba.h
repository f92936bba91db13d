#pragma once

#include <algorithm>

#include "cuda/kernels/attention_args.h"

namespace flywheel::cuda {

// Of the pattern (attention/pattern.h), and the longest sequence.
struct MobaShape {
  std::int64_t block, top_k, longest;
};

// Error Shape if the scratch memory does not hold what one key head needs: the mean keys, and for
// each query a score and a number for every block that it may choose; backward also a float a query
// and head.
void moba_attention_forward(const AttentionArgs& args, const MobaShape& shape, DType dtype,
                            const Workspace& workspace, cudaStream_t stream);
void moba_attention_backward(const AttentionArgs& args, const MobaShape& shape, DType dtype,
                             const Workspace& workspace, cudaStream_t stream);

// A pass over the heads that read the key heads [first_kv_head, first_kv_head + kv_heads).
struct MobaArgs {
  AttentionArgs attention;
  std::int64_t first_kv_head, kv_heads;
  std::int64_t block;   // keys of a block
  std::int64_t places;  // most earlier blocks that a query sees
  std::int64_t means_of_head;
  float* means;          // [kv_heads, means_of_head, D]
  float* scores;         // [heads of the pass, T, places], largest first, of equal ones the lower
  std::int32_t* chosen;  // the blocks that have them; -1: none

  constexpr std::int64_t group() const { return attention.heads / attention.kv_heads; }
};

// The first pass: over as many key heads as the workspace has room for.
MobaArgs moba_args(const AttentionArgs& args, const MobaShape& shape, const Workspace& workspace);

// run(args) for all passes.
template <class F>
void for_passes(MobaArgs args, const F& run) {
  const std::int64_t at_once = args.kv_heads;
  for (; args.first_kv_head < args.attention.kv_heads; args.first_kv_head += at_once) {
    args.kv_heads = std::min(at_once, args.attention.kv_heads - args.first_kv_head);
    run(args);
  }
}

// Writes means, scores and chosen of a pass. Forward and backward choose with these kernels, and so
// the same bits.
void choose_blocks(const MobaArgs& args, DType dtype, cudaStream_t stream);

}  // namespace flywheel::cuda

#pragma once

#include "cuda/kernels/attention_args.h"

namespace flywheel::cuda {

// Of the pattern (attention/pattern.h), and the longest sequence.
struct MobaShape {
  std::int64_t block, top_k, longest;
};

// Error Shape if the scratch memory does not hold what one key head needs: the mean keys, and for
// each query a score and a number for every block that it may choose.
void moba_attention_forward(const AttentionArgs& args, const MobaShape& shape, DType dtype,
                            const Workspace& workspace, cudaStream_t stream);

}  // namespace flywheel::cuda

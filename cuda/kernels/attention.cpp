#include <algorithm>
#include <initializer_list>
#include <optional>

#include "attention/plan.h"
#include "core/error.h"
#include "cuda/kernels/attention_moba.h"

namespace flywheel::cuda {
namespace {

HeadRows rows_of(const TensorView& view) {
  return {view.data, view.stride(0), view.stride(1)};
}

// cp.async and stores take 16 bytes.
bool is_aligned(const HeadRows& rows) {
  constexpr std::int64_t kElements = 16 / size_of(DType::BF16);
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
         rows.token_stride % kElements == 0 && rows.head_stride % kElements == 0;
}

// Of RoPE's tables two neighbours are read at once.
bool is_aligned(const Rope& rope) {
  constexpr std::uintptr_t kBytes = 2 * sizeof(float);
  return reinterpret_cast<std::uintptr_t>(rope.cos) % kBytes == 0 &&
         reinterpret_cast<std::uintptr_t>(rope.sin) % kBytes == 0;
}

bool fits_tensor_cores(DType dtype, const AttentionArgs& args,
                       std::initializer_list<HeadRows> rows) {
  return dtype == DType::BF16 && (args.size == 64 || args.size == 128) && is_aligned(args.rope) &&
         std::all_of(rows.begin(), rows.end(), [](const HeadRows& r) { return is_aligned(r); });
}

template <class Args>
AttentionArgs common_args(const Args& args, const DevicePlan& plan) {
  const std::int64_t size = args.q.shape[2];
  check_head_size(size, 8);
  AttentionArgs attention{};
  attention.q = rows_of(args.q);
  attention.k = rows_of(args.k);
  attention.v = rows_of(args.v);
  attention.out = rows_of(args.out);
  attention.lse = args.lse.f32();
  attention.plan = plan;
  attention.tokens = args.q.shape[0];
  attention.heads = args.q.shape[1];
  attention.kv_heads = args.k.shape[1];
  attention.size = static_cast<std::int32_t>(size);
  attention.scale = args.scale;
  return attention;
}

// Of moba, unless every sequence sees all keys and is served as full attention.
std::optional<MobaShape> moba_shape(const AttentionPlan& plan) {
  const AttentionPattern& pattern = plan.pattern();
  if (pattern.kind != AttentionKind::Moba) return std::nullopt;
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < plan.sequences(); ++s) longest = std::max(longest, plan.length(s));
  if (pattern.sees_all(longest)) return std::nullopt;
  return MobaShape{pattern.block, pattern.top_k, longest};
}

}  // namespace

void check_head_size(std::int64_t size, std::int64_t step) {
  constexpr std::int64_t kLargest = 256;
  require(size % step == 0 && size <= kLargest, ErrorKind::Shape,
          "attention: the head size is {}; the CUDA backend takes multiples of {} up to {}", size,
          step, kLargest);
}

void attention_forward(const AttentionForward& args, const DevicePlan& plan,
                       const Workspace& workspace, cudaStream_t stream) {
  if (args.q.elements() == 0) return;
  const AttentionArgs a = common_args(args, plan);
  if (const std::optional<MobaShape> shape = moba_shape(*args.plan)) {
    return moba_attention_forward(a, *shape, args.q.dtype, workspace, stream);
  }
  if (fits_tensor_cores(args.q.dtype, a, {a.q, a.k, a.v, a.out})) {
    mma_attention_forward(a, stream);
  } else {
    plain_attention_forward(a, args.q.dtype, stream);
  }
}

void attention_backward(const AttentionBackward& args, const DevicePlan& plan,
                        const Workspace& workspace, cudaStream_t stream) {
  if (args.q.elements() == 0) return;
  AttentionArgs a = common_args(args, plan);
  a.dout = rows_of(args.dout);
  a.dq = rows_of(args.dq);
  a.dk = rows_of(args.dk);
  a.dv = rows_of(args.dv);
  a.rope = rope_of(args);
  a.accumulate = args.accumulate;
  if (const std::optional<MobaShape> shape = moba_shape(*args.plan)) {
    return moba_attention_backward(a, *shape, args.q.dtype, workspace, stream);
  }
  if (fits_tensor_cores(args.q.dtype, a, {a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv})) {
    a.statistics = scratch<float>(workspace, 0, 2 * a.heads * plan.even_tokens);
    mma_attention_dq(a, stream);
    mma_attention_dkv(a, stream);
  } else {
    a.statistics = scratch<float>(workspace, 0, a.heads * a.tokens);
    plain_attention_backward(a, args.q.dtype, stream);
  }
}

}  // namespace flywheel::cuda

#include "core/error.h"
#include "cuda/kernels/attention_args.h"

namespace flywheel::cuda {
namespace {

HeadRows rows_of(const TensorView& view) {
  return {view.data, view.stride(0), view.stride(1)};
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

}  // namespace

void check_head_size(std::int64_t size, std::int64_t step) {
  constexpr std::int64_t kLargest = 256;
  require(size % step == 0 && size <= kLargest, ErrorKind::Shape,
          "attention: the head size is {}; the CUDA backend takes multiples of {} up to {}", size,
          step, kLargest);
}

void attention_forward(const AttentionForward& args, const DevicePlan& plan, cudaStream_t stream) {
  if (args.q.elements() == 0) return;
  plain_attention_forward(common_args(args, plan), args.q.dtype, stream);
}

void attention_backward(const AttentionBackward& args, const DevicePlan& plan,
                        const Workspace& workspace, cudaStream_t stream) {
  if (args.q.elements() == 0) return;
  AttentionArgs attention = common_args(args, plan);
  attention.dout = rows_of(args.dout);
  attention.dq = rows_of(args.dq);
  attention.dk = rows_of(args.dk);
  attention.dv = rows_of(args.dv);
  attention.delta = scratch<float>(workspace, 0, attention.heads * attention.tokens);
  attention.accumulate = args.accumulate;
  plain_attention_backward(attention, args.q.dtype, stream);
}

}  // namespace flywheel::cuda

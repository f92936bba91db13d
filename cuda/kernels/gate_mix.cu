// Gated mixing of two attention branches: a warp a head of a token.
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kHeads = 4;  // a block

struct GateMix {
  void* da;
  void* db;
  void* dgates;
  void* out;         // forward
  const void* dout;  // backward
  const void* a;
  const void* b;
  const void* gates;  // [T, 2 G], a's then b's
  std::int64_t tokens, heads, size;
};

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

// Where head of a token starts, and its first gate of a; kChannel: one gate a channel.
struct HeadPlace {
  std::int64_t first, gate, gates;
};
template <bool kChannel>
__device__ __forceinline__ HeadPlace place_of(const GateMix& args, std::int64_t row) {
  const std::int64_t gates = args.heads * (kChannel ? args.size : 1);
  const std::int64_t token = row / args.heads;
  const std::int64_t head = row % args.heads;
  return {row * args.size, token * 2 * gates + head * (kChannel ? args.size : 1), gates};
}

template <class T, bool kChannel>
__global__ void __launch_bounds__(kHeads* kWarp) gate_mix_forward_kernel(GateMix args) {
  const std::int64_t row = row_of_warp();
  if (row >= args.tokens * args.heads) return;
  const HeadPlace place = place_of<kChannel>(args, row);
  const T* a = static_cast<const T*>(args.a) + place.first;
  const T* b = static_cast<const T*>(args.b) + place.first;
  const T* gates = static_cast<const T*>(args.gates) + place.gate;
  T* out = static_cast<T*>(args.out) + place.first;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    const std::int64_t gate = kChannel ? c : 0;
    const float from_a = sigmoid(to_float(gates[gate])) * to_float(a[c]);
    const float from_b = sigmoid(to_float(gates[place.gates + gate])) * to_float(b[c]);
    out[c] = from_float<T>(from_a + from_b);
  }
}

template <class T, bool kChannel>
__global__ void __launch_bounds__(kHeads* kWarp) gate_mix_backward_kernel(GateMix args) {
  const std::int64_t row = row_of_warp();
  if (row >= args.tokens * args.heads) return;
  const HeadPlace place = place_of<kChannel>(args, row);
  const T* gates = static_cast<const T*>(args.gates) + place.gate;
  const T* a = static_cast<const T*>(args.a) + place.first;
  const T* b = static_cast<const T*>(args.b) + place.first;
  const T* dout = static_cast<const T*>(args.dout) + place.first;
  T* da = static_cast<T*>(args.da) + place.first;
  T* db = static_cast<T*>(args.db) + place.first;
  T* dgates = static_cast<T*>(args.dgates) + place.gate;
  float sum_a = 0;
  float sum_b = 0;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    const std::int64_t gate = kChannel ? c : 0;
    const float open_a = sigmoid(to_float(gates[gate]));
    const float open_b = sigmoid(to_float(gates[place.gates + gate]));
    const float gradient = to_float(dout[c]);  // read before da, which may be the same memory
    const float slope_a = open_a * (1.0F - open_a) * gradient * to_float(a[c]);
    const float slope_b = open_b * (1.0F - open_b) * gradient * to_float(b[c]);
    da[c] = from_float<T>(open_a * gradient);
    db[c] = from_float<T>(open_b * gradient);
    if constexpr (kChannel) {
      dgates[c] = from_float<T>(slope_a);
      dgates[place.gates + c] = from_float<T>(slope_b);
    }
    sum_a += slope_a;
    sum_b += slope_b;
  }
  if constexpr (!kChannel) {
    sum_a = warp_sum(sum_a);
    sum_b = warp_sum(sum_b);
    if (lane_id() == 0) {
      dgates[0] = from_float<T>(sum_a);
      dgates[place.gates] = from_float<T>(sum_b);
    }
  }
}

// Calls f.operator()<T, kChannel>().
template <class F>
void for_kind(const GateMix& args, const TensorView& gates, const F& f) {
  const bool channel = gates.shape[1] != 2 * args.heads || args.size == 1;
  if (gates.dtype == DType::BF16) {
    channel ? f.template operator()<bf16, true>() : f.template operator()<bf16, false>();
  } else {
    channel ? f.template operator()<float, true>() : f.template operator()<float, false>();
  }
}

}  // namespace

void gate_mix_forward(const GateMixForward& args, cudaStream_t stream) {
  const GateMix mix{.out = args.out.data,
                    .a = args.a.data,
                    .b = args.b.data,
                    .gates = args.gate_logits.data,
                    .tokens = args.a.shape[0],
                    .heads = args.a.shape[1],
                    .size = args.a.shape[2]};
  if (mix.tokens == 0) return;
  for_kind(mix, args.gate_logits, [&]<class T, bool kChannel>() {
    launch<gate_mix_forward_kernel<T, kChannel>>(blocks_for(mix.tokens * mix.heads, kHeads),
                                                 kHeads * kWarp, 0, stream, mix);
  });
}

void gate_mix_backward(const GateMixBackward& args, cudaStream_t stream) {
  const GateMix mix{.da = args.da.data,
                    .db = args.db.data,
                    .dgates = args.dgate_logits.data,
                    .dout = args.dout.data,
                    .a = args.a.data,
                    .b = args.b.data,
                    .gates = args.gate_logits.data,
                    .tokens = args.a.shape[0],
                    .heads = args.a.shape[1],
                    .size = args.a.shape[2]};
  if (mix.tokens == 0) return;
  for_kind(mix, args.gate_logits, [&]<class T, bool kChannel>() {
    launch<gate_mix_backward_kernel<T, kChannel>>(blocks_for(mix.tokens * mix.heads, kHeads),
                                                  kHeads * kWarp, 0, stream, mix);
  });
}

}  // namespace flywheel::cuda

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

// Where a head of a token starts, and its first gate of a; kChannel: one gate a channel.
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

// How far the gates of a and b are open.
struct Openings {
  float a, b;
};
template <class T>
__device__ __forceinline__ Openings openings_at(const T* gates, std::int64_t count) {
  return {sigmoid(to_float(gates[0])), sigmoid(to_float(gates[count]))};
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
  Openings open{};
  if constexpr (!kChannel) open = openings_at(gates, place.gates);
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    if constexpr (kChannel) open = openings_at(gates + c, place.gates);
    out[c] = from_float<T>(open.a * to_float(a[c]) + open.b * to_float(b[c]));
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
  Openings open{};
  if constexpr (!kChannel) open = openings_at(gates, place.gates);
  float dot_a = 0;
  float dot_b = 0;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    if constexpr (kChannel) open = openings_at(gates + c, place.gates);
    const float gradient = to_float(dout[c]);  // read before da, which may be the same memory
    dot_a += gradient * to_float(a[c]);
    dot_b += gradient * to_float(b[c]);
    da[c] = from_float<T>(open.a * gradient);
    db[c] = from_float<T>(open.b * gradient);
    if constexpr (kChannel) {
      dgates[c] = from_float<T>(open.a * (1.0F - open.a) * dot_a);
      dgates[place.gates + c] = from_float<T>(open.b * (1.0F - open.b) * dot_b);
      dot_a = dot_b = 0;
    }
  }
  if constexpr (!kChannel) {
    dot_a = warp_sum(dot_a);
    dot_b = warp_sum(dot_b);
    if (lane_id() == 0) {
      dgates[0] = from_float<T>(open.a * (1.0F - open.a) * dot_a);
      dgates[place.gates] = from_float<T>(open.b * (1.0F - open.b) * dot_b);
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

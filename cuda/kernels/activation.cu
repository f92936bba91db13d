#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

// The column of a thread, where block (x, y) walks over part y of row x.
template <int kCount>
__device__ __forceinline__ std::int64_t column_of_thread() {
  return (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * kCount;
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    swiglu_forward_kernel(T* out, const T* gate_up, std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = column_of_thread<kCount>();
  if (column >= width) return;
  const Floats<kCount> gates = load<kCount>(gate_up + row * 2 * width + column);
  Floats<kCount> values = load<kCount>(gate_up + row * 2 * width + width + column);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] *= gates[i] * sigmoid(gates[i]);
  store(out + row * width + column, values);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(T* dgate_up, const T* dout, const T* gate_up, std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = column_of_thread<kCount>();
  if (column >= width) return;
  const std::int64_t gate_at = row * 2 * width + column;
  const Floats<kCount> gates = load<kCount>(gate_up + gate_at);
  const Floats<kCount> ups = load<kCount>(gate_up + gate_at + width);
  const Floats<kCount> gradients = load<kCount>(dout + row * width + column);
  Floats<kCount> dgate;
  Floats<kCount> dup;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float s = sigmoid(gates[i]);
    dgate[i] = gradients[i] * ups[i] * (s + gates[i] * s * (1.0F - s));
    dup[i] = gradients[i] * gates[i] * s;
  }
  store(dgate_up + gate_at, dgate);
  store(dgate_up + gate_at + width, dup);
}

constexpr float kGeluSlope = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    gelu_forward_kernel(T* out, const T* x, std::int64_t count) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= count) return;
  Floats<kCount> values = load<kCount>(x + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float v = values[i];
    values[i] = 0.5F * v * (1.0F + tanhf(kGeluSlope * (v + kGeluCubic * v * v * v)));
  }
  store(out + at, values);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    gelu_backward_kernel(T* dx, const T* dout, const T* x, std::int64_t count) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= count) return;
  const Floats<kCount> values = load<kCount>(x + at);
  Floats<kCount> gradients = load<kCount>(dout + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float v = values[i];
    const float t = tanhf(kGeluSlope * (v + kGeluCubic * v * v * v));
    const float slope = kGeluSlope * (1.0F + 3.0F * kGeluCubic * v * v);
    gradients[i] *= 0.5F * (1.0F + t) + 0.5F * v * (1.0F - t * t) * slope;
  }
  store(dx + at, gradients);
}

}  // namespace

void swiglu_forward(const SwigluForward& args, cudaStream_t stream) {
  const std::int64_t width = args.out.shape[1];
  if (args.out.elements() == 0) return;
  for_dtype(
      args.out.dtype, can_pack(width, {&args.out, &args.gate_up}), [&]<class T, int kCount>() {
        const dim3 grid(static_cast<unsigned>(args.out.shape[0]),
                        blocks_for(width, kThreads * kCount));
        launch<swiglu_forward_kernel<T, kCount>>(grid, kThreads, 0, stream, pointer_to<T>(args.out),
                                                 pointer_to<const T>(args.gate_up), width);
      });
}

void swiglu_backward(const SwigluBackward& args, cudaStream_t stream) {
  const std::int64_t width = args.dout.shape[1];
  if (args.dout.elements() == 0) return;
  for_dtype(args.dout.dtype, can_pack(width, {&args.dgate_up, &args.dout, &args.gate_up}),
            [&]<class T, int kCount>() {
              const dim3 grid(static_cast<unsigned>(args.dout.shape[0]),
                              blocks_for(width, kThreads * kCount));
              launch<swiglu_backward_kernel<T, kCount>>(
                  grid, kThreads, 0, stream, pointer_to<T>(args.dgate_up),
                  pointer_to<const T>(args.dout), pointer_to<const T>(args.gate_up), width);
            });
}

void gelu_forward(const GeluForward& args, cudaStream_t stream) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  for_dtype(args.x.dtype, can_pack(count, {&args.out, &args.x}), [&]<class T, int kCount>() {
    launch<gelu_forward_kernel<T, kCount>>(blocks_for(count, kThreads * kCount), kThreads, 0,
                                           stream, pointer_to<T>(args.out),
                                           pointer_to<const T>(args.x), count);
  });
}

void gelu_backward(const GeluBackward& args, cudaStream_t stream) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  for_dtype(args.x.dtype, can_pack(count, {&args.dx, &args.dout, &args.x}),
            [&]<class T, int kCount>() {
              launch<gelu_backward_kernel<T, kCount>>(
                  blocks_for(count, kThreads * kCount), kThreads, 0, stream, pointer_to<T>(args.dx),
                  pointer_to<const T>(args.dout), pointer_to<const T>(args.x), count);
            });
}

}  // namespace flywheel::cuda

#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    add_kernel(T* out, const T* a, const T* b, std::int64_t count) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= count) return;
  Floats<kCount> values = load<kCount>(a + at);
  const Floats<kCount> others = load<kCount>(b + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] += others[i];
  store(out + at, values);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) scale_kernel(T* x, float factor, std::int64_t count) {
  const std::int64_t at = index_of_thread() * kCount;
  if (at >= count) return;
  Floats<kCount> values = load<kCount>(x + at);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] *= factor;
  store(x + at, values);
}

__global__ void __launch_bounds__(kThreads) fill_kernel(float* x, float value, std::int64_t count) {
  const std::int64_t at = index_of_thread();
  if (at < count) x[at] = value;
}

}  // namespace

void add(const Add& args, cudaStream_t stream) {
  const std::int64_t count = args.out.elements();
  if (count == 0) return;
  for_dtype(
      args.out.dtype, can_pack(count, {&args.out, &args.a, &args.b}), [&]<class T, int kCount>() {
        launch<add_kernel<T, kCount>>(blocks_for(count, kThreads * kCount), kThreads, 0, stream,
                                      pointer_to<T>(args.out), pointer_to<const T>(args.a),
                                      pointer_to<const T>(args.b), count);
      });
}

void scale(const Scale& args, cudaStream_t stream) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  for_dtype(args.x.dtype, can_pack(count, {&args.x}), [&]<class T, int kCount>() {
    launch<scale_kernel<T, kCount>>(blocks_for(count, kThreads * kCount), kThreads, 0, stream,
                                    pointer_to<T>(args.x), args.factor, count);
  });
}

void fill(const Fill& args, cudaStream_t stream) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  launch<fill_kernel>(blocks_for(count, kThreads), kThreads, 0, stream, args.x.f32(), args.value,
                      count);
}

void copy(const Copy& args, cudaStream_t stream) {
  check(cudaMemcpyAsync(args.out.data, args.x.data, static_cast<std::size_t>(args.out.bytes()),
                        cudaMemcpyDeviceToDevice, stream),
        "copy");
}

}  // namespace flywheel::cuda

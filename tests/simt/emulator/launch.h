#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "simt/emulator/block.h"
#include "simt/emulator/runtime.h"

namespace simt {

// Queues work of a stream; eager unless config.defer_streams.
void enqueue(cudaStream_t stream, std::function<void()> work);
// Runs all blocks; what goes wrong becomes the sticky error of the device.
void run_launch(Launch& launch);
cudaError_t check_launch(const Launch& launch);
bool is_device_address(const void* address);
std::string_view kernel_name(const char* pretty_function);

template <auto kKernel>
constexpr const char* pretty_name() {
  return __PRETTY_FUNCTION__;
}

// Pointer arguments must point to device memory.
template <class T>
void check_argument(std::string_view kernel, int index, const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    if (value && !is_device_address(reinterpret_cast<const void*>(value))) {
      fail("argument " + std::to_string(index) + " of kernel " + std::string(kernel) +
           " is not a device pointer");
    }
  }
}

template <auto kKernel, class... Parameters, class... Args>
cudaError_t queue_as(void (*)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                     cudaStream_t stream, Args&&... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Args), "wrong number of kernel arguments");
  using Arguments = std::tuple<std::remove_cvref_t<Parameters>...>;
  const auto describe = [=](Launch& launch) {
    launch.kernel = kernel_name(pretty_name<kKernel>());
    launch.grid = grid;
    launch.block = block;
    launch.shared_bytes = shared_bytes;
    launch.blocks = grid.count();
  };
  Launch probe;
  describe(probe);
  if (const cudaError_t status = check_launch(probe); status != cudaSuccess) return status;
  enqueue(stream, [=, arguments = Arguments(static_cast<Parameters>(args)...)]() mutable {
    Launch launch;
    describe(launch);
    launch.arguments = &arguments;
    launch.call = [](void* tuple) { std::apply(kKernel, *static_cast<Arguments*>(tuple)); };
    int index = 0;
    std::apply([&](auto&... value) { (check_argument(launch.kernel, index++, value), ...); },
               arguments);
    run_launch(launch);
  });
  return cudaSuccess;
}

template <auto kKernel, class... Args>
cudaError_t queue_kernel(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                         Args&&... args) {
  return queue_as<kKernel>(kKernel, grid, block, shared_bytes, stream, std::forward<Args>(args)...);
}

// Dynamic shared memory as one struct.
template <class T>
T& dynamic_shared() {
  if (sizeof(T) > worker->shared_bytes) {
    fail("needs " + std::to_string(sizeof(T)) + " bytes of dynamic shared memory; launched with " +
         std::to_string(worker->shared_bytes));
  }
  return *reinterpret_cast<T*>(worker->shared);
}

template <class T>
inline char type_key = 0;

// Static shared memory, one object for each type.
template <class T>
SIMT_UNCHECKED T& static_shared() {
  for (const StaticShared& known : worker->statics) {
    if (known.key == &type_key<T>) return *reinterpret_cast<T*>(known.data);
  }
  return *static_cast<T*>(static_shared(&type_key<T>, sizeof(T), alignof(T)));
}

}  // namespace simt

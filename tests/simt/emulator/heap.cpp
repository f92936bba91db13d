#include "simt/emulator/heap.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>

#include "simt/emulator/faults.h"
#include "simt/emulator/launch.h"
#include "simt/emulator/streams.h"

namespace simt {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kAddressRange = std::size_t{1} << 38;
constexpr std::size_t kMemory = std::size_t{8} << 30;  // what the device says that it has
constexpr unsigned char kRedZone = 0xfd;

// The caller's bytes end less than 256 bytes before a page that is never mapped.
struct Allocation {
  std::size_t bytes;
  char* pages;
  std::size_t page_bytes;
  bool live;
};

std::map<std::uintptr_t, Allocation>& allocations() {
  static std::map<std::uintptr_t, Allocation> map;
  return map;
}
std::size_t used_range = 0;
std::size_t live_bytes = 0;
int accesses = 0;

char* address_range() {
  static char* const range = [] {
    void* pages =
        mmap(nullptr, kAddressRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(pages);
  }();
  return range;
}

void protect_all(int protection) {
  for (const auto& [address, allocation] : allocations()) {
    if (allocation.live) mprotect(allocation.pages, allocation.page_bytes, protection);
  }
}

bool tail_intact(std::uintptr_t address, const Allocation& allocation) {
  const auto* begin = reinterpret_cast<unsigned char*>(address + allocation.bytes);
  const auto* end = reinterpret_cast<unsigned char*>(allocation.pages + allocation.page_bytes);
  return std::all_of(begin, end, [](unsigned char byte) { return byte == kRedZone; });
}

bool within_allocation(const void* address, std::size_t bytes) {
  const HeapBlock block = find_allocation(address);
  return block.live && static_cast<const char*>(address) + bytes <= block.data + block.bytes;
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool valid = is_device_address(to) == to_device && is_device_address(from) == from_device &&
                     (!to_device || within_allocation(to, bytes)) &&
                     (!from_device || within_allocation(from, bytes));
  return valid ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

HeapAccess::HeapAccess() {
  if (accesses++ == 0 && config.host_guard) protect_all(PROT_READ | PROT_WRITE);
}
HeapAccess::~HeapAccess() {
  if (--accesses == 0 && config.host_guard) protect_all(PROT_NONE);
}

bool is_device_address(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  return byte >= address_range() && byte < address_range() + kAddressRange;
}

HeapBlock find_allocation(const void* address) {
  const auto& all = allocations();
  auto found = all.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (found == all.begin()) return {};
  --found;
  return {reinterpret_cast<char*>(found->first), found->second.bytes, found->second.live};
}

std::string describe_device_address(const void* address) {
  if (!is_device_address(address)) return "";
  const HeapBlock block = find_allocation(address);
  if (!block.data) return "before the first allocation";
  return fmt::format("byte {} of {} allocation of {} bytes",
                     static_cast<const char*>(address) - block.data, block.live ? "an" : "a FREED",
                     block.bytes);
}

}  // namespace simt

using namespace simt;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  const DeviceLock lock;
  const std::size_t body = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t pages = (body + kPage - 1) / kPage * kPage;
  if (live_bytes + bytes > kMemory || used_range + pages + kPage > kAddressRange) {
    return cudaErrorMemoryAllocation;
  }
  char* begin = address_range() + used_range;
  used_range += pages + kPage;
  if (mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) return cudaErrorMemoryAllocation;
  char* data = begin + pages - body;
  std::memset(begin, kRedZone, static_cast<std::size_t>(data - begin));
  std::memset(data, 0xff, bytes);  // NaN
  std::memset(data + bytes, kRedZone, body - bytes);
  allocations()[reinterpret_cast<std::uintptr_t>(data)] = {bytes, begin, pages, true};
  live_bytes += bytes;
  if (config.host_guard) mprotect(begin, pages, PROT_NONE);
  *memory = data;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (!memory) return cudaSuccess;
  drain_streams();
  const DeviceLock lock;
  const auto found = allocations().find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == allocations().end() || !found->second.live) return cudaErrorInvalidValue;
  Allocation& allocation = found->second;
  mprotect(allocation.pages, allocation.page_bytes, PROT_READ | PROT_WRITE);
  if (!tail_intact(found->first, allocation)) {
    report(fmt::format("device memory written past the end of an allocation of {} bytes",
                       allocation.bytes));
    fail_device(cudaErrorLaunchFailure);
  }
  allocation.live = false;
  live_bytes -= allocation.bytes;
  madvise(allocation.pages, allocation.page_bytes, MADV_DONTNEED);
  mprotect(allocation.pages, allocation.page_bytes, PROT_NONE);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  *memory = std::malloc(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory) drain_streams();  // which may still read it
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kMemory;
  *free = kMemory - live_bytes;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t status = check_copy(to, from, bytes, kind); status != cudaSuccess) {
    return status;
  }
  enqueue(stream, [=] {
    std::memmove(to, from, bytes);
    if (observer && kind != cudaMemcpyDeviceToHost) observer->filled(to, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  drain_streams();
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (!within_allocation(memory, bytes)) return cudaErrorInvalidValue;
  enqueue(stream, [=] {
    std::memset(memory, value, bytes);
    if (observer) observer->filled(memory, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "SIMT emulator");
  properties->totalGlobalMem = kMemory;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

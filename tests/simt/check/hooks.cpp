// The functions that g++'s thread sanitizer pass calls before every access of a kernel's. Ours take
// the place of libtsan, which is not linked.
#include <cstdint>

#include "simt/check/race_detector.h"
#include "simt/check/source_lines.h"

namespace {

[[maybe_unused]] const bool installed = [] {
  simt::observer = &simt::race_detector();
  return true;
}();

void access(const volatile void* address, std::size_t bytes, bool write, bool atomic,
            const void* pc) {
  simt::race_detector().check(
      {const_cast<const void*>(address), bytes, simt::code_offset(pc), write, atomic});
}

}  // namespace

#define CALLER __builtin_return_address(0)

#define SIMT_HOOKS(BYTES)                       \
  void __tsan_read##BYTES(void* p) {            \
    access(p, BYTES, false, false, CALLER);     \
  }                                             \
  void __tsan_write##BYTES(void* p) {           \
    access(p, BYTES, true, false, CALLER);      \
  }                                             \
  void __tsan_unaligned_read##BYTES(void* p) {  \
    access(p, BYTES, false, false, CALLER);     \
  }                                             \
  void __tsan_unaligned_write##BYTES(void* p) { \
    access(p, BYTES, true, false, CALLER);      \
  }                                             \
  void __tsan_volatile_read##BYTES(void* p) {   \
    access(p, BYTES, false, false, CALLER);     \
  }                                             \
  void __tsan_volatile_write##BYTES(void* p) {  \
    access(p, BYTES, true, false, CALLER);      \
  }

#define SIMT_ATOMIC_HOOKS(BITS, TYPE)                                                              \
  TYPE __tsan_atomic##BITS##_load(const volatile TYPE* p, int) {                                   \
    access(p, sizeof(TYPE), false, true, CALLER);                                                  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  TYPE __tsan_atomic##BITS##_fetch_add(volatile TYPE* p, TYPE v, int) {                            \
    access(p, sizeof(TYPE), true, true, CALLER);                                                   \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* p, TYPE* e, TYPE v, int, int) { \
    access(p, sizeof(TYPE), true, true, CALLER);                                                   \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }                                                                                                \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* p, TYPE* e, TYPE v, int, int) {   \
    access(p, sizeof(TYPE), true, true, CALLER);                                                   \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, std::size_t n) {
  access(p, n, false, false, CALLER);
}
void __tsan_write_range(void* p, std::size_t n) {
  access(p, n, true, false, CALLER);
}
SIMT_HOOKS(1)
SIMT_HOOKS(2)
SIMT_HOOKS(4)
SIMT_HOOKS(8)
SIMT_HOOKS(16)
SIMT_ATOMIC_HOOKS(8, std::uint8_t)
SIMT_ATOMIC_HOOKS(32, std::uint32_t)
SIMT_ATOMIC_HOOKS(64, std::uint64_t)
void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
}

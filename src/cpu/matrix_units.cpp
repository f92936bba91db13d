#include "cpu/matrix_units.h"

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace flywheel::cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)

// Intel, Software Developer's Manual, CPUID leaf 7.
bool machine_has_amx() {
  constexpr unsigned kBf16 = 1U << 22;
  constexpr unsigned kTiles = 1U << 24;
  constexpr unsigned kBoth = kBf16 | kTiles;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kBoth) == kBoth;
}

// Linux gives the tiles' 8 KiB of state only to a process that asks
// (Documentation/arch/x86/xstate).
bool system_grants_amx() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool machine_has_amx() {
  return false;
}

bool system_grants_amx() {
  return false;
}

#endif

std::atomic<bool>& wanted() {
  static std::atomic<bool> on = true;
  return on;
}

}  // namespace

bool use_amx() {
  static const bool available = machine_has_amx() && system_grants_amx();
  return available && wanted();
}

bool use_vnni() {
#if defined(__x86_64__)
  static const bool available = __builtin_cpu_supports("avx512vnni") != 0;
  return available && wanted();
#else
  return false;
#endif
}

void switch_matrix_units(bool on) {
  wanted() = on;
}

}  // namespace flywheel::cpu

#include "cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

namespace flywheel::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

double gibibytes(double bytes) {
  return bytes / (1 << 30);
}

double physical_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

Memory::Memory(std::int64_t bytes, const std::string& name, Pages pages)
    : bytes_(bytes), mapping_(MAP_FAILED) {
  require(bytes >= 0, ErrorKind::Internal, "{}: {} bytes of memory asked for", name, bytes);
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + kHugePage) / kHugePage * kHugePage;
  mapped_bytes_ = rounded + kHugePage;
  const bool all = pages == Pages::All;
  if (!all || static_cast<double>(mapped_bytes_) < physical_bytes()) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (all ? 0 : MAP_NORESERVE);
    mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  }
  require(mapping_ != MAP_FAILED, ErrorKind::Device,
          "{}: cannot get {:.3f} GiB of memory; this machine has {:.1f} GiB in all: make the model "
          "or the batch smaller",
          name, gibibytes(static_cast<double>(bytes)), gibibytes(physical_bytes()));
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (kHugePage - address % kHugePage) % kHugePage;
  madvise(data_, rounded, all ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

Memory::~Memory() {
  munmap(mapping_, mapped_bytes_);
}

}  // namespace flywheel::cpu

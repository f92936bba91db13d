// Opens the input as a token file and reads all of it. Damaged files must end in Error, never in a
// crash.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/shard.h"
#include "data/shard_format.h"

namespace {

using namespace flywheel;

void read_shard(const std::string& path) {
  try {
    const ShardReader shard(path);
    shard.fingerprint();
    const auto tokens = static_cast<std::uint64_t>(shard.info().tokens);
    for (const std::uint64_t start : shard.document_starts()) {
      if (start >= tokens) std::abort();
    }
    std::vector<std::int32_t> read(tokens);
    shard.read(0, read);
    for (const std::int32_t token : read) {
      if (token < 0) std::abort();
    }
    shard.verify_checksum();
  } catch (const Error& error) {
    if (std::strchr(error.what(), '\n') || error.kind() == ErrorKind::Internal) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int descriptor = ::memfd_create("shard", 0);
  if (descriptor < 0 || ::write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  read_shard(path);

  // Once more with a header checksum that fits, to reach what lies behind it.
  shard_format::Header header;
  if (size >= sizeof(header)) {
    std::memcpy(&header, data, sizeof(header));
    header.header_checksum = shard_format::header_checksum(header);
    if (::pwrite(descriptor, &header, sizeof(header), 0) != sizeof(header)) std::abort();
    read_shard(path);
  }
  ::close(descriptor);
  return 0;
}

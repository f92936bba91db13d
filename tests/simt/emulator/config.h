#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

// Which thread runs next when one blocks. kSkew lets one warp run as far ahead of the others as
// barriers allow. kRandom and kSkew also permute the blocks of a grid.
enum class Order : std::uint8_t { kRoundRobin, kReverse, kRandom, kSkew };

// When a cp.async takes effect: at issue, only at the wait, or drawn for each copy. Lazy shows
// missing waits, eager shows buffers that are overwritten too early.
enum class Landing : std::uint8_t { kEager, kLazy, kMixed };

// How the emulator runs kernels; the same settings repeat a run exactly.
struct Config {
  int workers = 0;  // threads of the host that run blocks; 0: one for each core
  Order order = Order::kRoundRobin;
  Landing landing = Landing::kLazy;
  std::uint64_t seed = 1;
  bool defer_streams = false;    // run queued work only when the host waits, streams interleaved
  bool host_guard = false;       // device memory is inaccessible but for device work
  bool count_conflicts = false;  // check mode: bank conflicts and sectors by source line
  int devices = 8;               // that there seem to be; a process uses one
  double patience_seconds = 60;  // after which a collective fails that not all ranks have come to
  std::size_t stack_bytes = 64 << 10;
  std::size_t shared_limit = 227 << 10;  // shared memory that a block may ask for
};
inline Config config;

}  // namespace simt

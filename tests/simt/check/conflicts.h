#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace simt {

// What the accesses of one line cost: wavefronts of shared memory (32 banks of 4 bytes) or 32-byte
// sectors of device memory, against the least that they could.
struct LineCost {
  std::string line;
  bool shared = false;
  bool write = false;
  std::uint64_t requests = 0;  // of a whole warp
  std::uint64_t cost = 0;
  std::uint64_t ideal = 0;
};

// Counts with config.count_conflicts. The k-th run of an instruction by the lanes of a warp is
// taken for one access of the warp.
class ConflictCounter {
 public:
  struct Access {
    std::uint32_t pc;
    int thread;
    std::uint64_t address;
    std::uint32_t bytes;
    bool write;
    bool shared;
  };
  void count(const Access& access);
  void end_block();
  // Since the last call, the dearest lines first.
  std::vector<LineCost> take();

 private:
  struct Request {
    std::uint32_t lanes = 0;
    std::array<std::uint64_t, 32> address{};
  };
  struct Site {
    std::array<std::uint32_t, 32> runs{};
    std::uint32_t closed = 0;
    std::vector<Request> open;
    Access kind{};
  };
  void close(const Site& site, const Request& request);

  std::unordered_map<std::uint64_t, Site> sites_;  // by warp and pc, of the running block
  std::map<std::uint32_t, LineCost> totals_;       // by pc
};

ConflictCounter& conflict_counter();

}  // namespace simt

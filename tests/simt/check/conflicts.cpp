#include "simt/check/conflicts.h"

#include <algorithm>
#include <set>

#include "simt/check/source_lines.h"

namespace simt {
namespace {

// Wavefronts: how many different words the busiest bank must give. Lanes go 32, 16 or 8 at a time
// for accesses of up to 4, 8 and 16 bytes.
struct Wavefronts {
  std::uint64_t cost = 0;
  std::uint64_t ideal = 0;
};
Wavefronts count_wavefronts(std::uint32_t lanes, const std::array<std::uint64_t, 32>& address,
                            std::uint32_t bytes) {
  const int lanes_at_once = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  Wavefronts result;
  for (int first = 0; first < 32; first += lanes_at_once) {
    std::array<std::set<std::uint64_t>, 32> words;
    std::size_t most = 0;
    for (int lane = first; lane < first + lanes_at_once; ++lane) {
      if ((lanes >> lane & 1U) == 0) continue;
      const std::uint64_t begin = address[static_cast<std::size_t>(lane)];
      for (std::uint64_t word = begin / 4; word <= (begin + bytes - 1) / 4; ++word) {
        words[word % 32].insert(word);
        most = std::max(most, words[word % 32].size());
      }
    }
    result.cost += most;
    result.ideal += most > 0 ? 1 : 0;
  }
  return result;
}

Wavefronts count_sectors(std::uint32_t lanes, const std::array<std::uint64_t, 32>& address,
                         std::uint32_t bytes) {
  std::set<std::uint64_t> sectors;
  std::set<std::uint64_t> places;
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1U) == 0) continue;
    const std::uint64_t begin = address[static_cast<std::size_t>(lane)];
    places.insert(begin);
    for (std::uint64_t sector = begin / 32; sector <= (begin + bytes - 1) / 32; ++sector) {
      sectors.insert(sector);
    }
  }
  return {sectors.size(), (places.size() * bytes + 31) / 32};
}

}  // namespace

void ConflictCounter::count(const Access& access) {
  const auto warp = static_cast<std::uint64_t>(access.thread / 32);
  const auto lane = static_cast<std::size_t>(access.thread % 32);
  Site& site = sites_[warp << 32 | access.pc];
  site.kind = access;
  const std::uint32_t run = site.runs[lane]++ - site.closed;
  if (run >= site.open.size()) site.open.resize(run + 1);
  Request& request = site.open[run];
  request.lanes |= 1U << lane;
  request.address[lane] = access.address;
  if (run == 0 && request.lanes == ~0U) {
    close(site, request);
    site.open.erase(site.open.begin());
    ++site.closed;
  }
}

void ConflictCounter::close(const Site& site, const Request& request) {
  LineCost& total = totals_[site.kind.pc];
  total.shared = site.kind.shared;
  total.write = site.kind.write;
  const Wavefronts found = site.kind.shared
                               ? count_wavefronts(request.lanes, request.address, site.kind.bytes)
                               : count_sectors(request.lanes, request.address, site.kind.bytes);
  ++total.requests;
  total.cost += found.cost;
  total.ideal += found.ideal;
}

void ConflictCounter::end_block() {
  for (const auto& [key, site] : sites_) {
    for (const Request& request : site.open) {
      if (request.lanes != 0) close(site, request);
    }
  }
  sites_.clear();
}

std::vector<LineCost> ConflictCounter::take() {
  std::vector<LineCost> lines;
  for (auto& [pc, cost] : totals_) {
    cost.line = line_of(pc);
    lines.push_back(cost);
  }
  totals_.clear();
  std::sort(lines.begin(), lines.end(), [](const LineCost& a, const LineCost& b) {
    return a.cost - a.ideal > b.cost - b.ideal;
  });
  return lines;
}

ConflictCounter& conflict_counter() {
  static ConflictCounter counter;
  return counter;
}

}  // namespace simt

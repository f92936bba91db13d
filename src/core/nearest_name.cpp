#include "core/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace flywheel {
namespace {

constexpr std::size_t kPrefix = 3;  // letters of a beginning that tells something

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best) return *best;
  const auto longer = std::find_if(
      candidates.begin(), candidates.end(),
      [&](const auto& candidate) { return name.size() >= kPrefix && candidate.starts_with(name); });
  return longer != candidates.end() ? *longer : std::string();
}

}  // namespace flywheel

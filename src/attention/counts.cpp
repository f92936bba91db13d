#include "attention/counts.h"

#include <algorithm>
#include <vector>

namespace flywheel {
namespace {

double to_double(std::int64_t x) {
  return static_cast<double>(x);
}

// Pairs of an open line of n ranks that are 1..reach apart.
double line_pairs(std::int64_t n, std::int64_t reach) {
  const double r = to_double(std::min(reach, n - 1));
  return r * to_double(n) - r * (r + 1) / 2;
}

// Ranks [begin, end) as keys of the queries `shift` ranks above them.
std::int64_t count_causal(const std::vector<std::int32_t>& position, std::int64_t begin,
                          std::int64_t end, std::int64_t shift) {
  std::int64_t count = 0;
  for (std::int64_t key = begin; key < end; ++key) {
    count +=
        position[static_cast<std::size_t>(key)] <= position[static_cast<std::size_t>(key + shift)];
  }
  return count;
}

std::int64_t stochastic_pairs(const AttentionPlan& plan, std::int64_t sequence) {
  const AttentionPattern& pattern = plan.pattern();
  const std::int64_t n = plan.length(sequence);
  const auto begin =
      static_cast<std::size_t>(plan.cu_seqlens()[static_cast<std::size_t>(sequence)]);
  std::vector<std::int32_t> position(static_cast<std::size_t>(n));
  for (std::size_t slot = begin; slot < begin + position.size(); ++slot) {
    position[static_cast<std::size_t>(plan.slot_rank()[slot])] = plan.slot_position()[slot];
  }
  std::int64_t pairs = 0;
  for (std::int64_t place = 0; place < pattern.slots(); ++place) {
    const std::int64_t shift = place - pattern.offset();  // the query's rank less the key's
    if (-n < shift && shift < n) {
      pairs += count_causal(position, std::max<std::int64_t>(0, -shift),
                            n - std::max<std::int64_t>(0, shift), shift);
    }
    if (!pattern.circular || shift == 0) continue;
    const std::int64_t wrapped = shift > 0 ? shift - n : shift + n;
    pairs += count_causal(position, std::max<std::int64_t>(0, -wrapped),
                          n - std::max<std::int64_t>(0, wrapped), wrapped);
  }
  return pairs;
}

// A query sees its block up to itself, and top_k - 1 whole blocks or all that there are before.
std::int64_t block_pairs(const AttentionPattern& pattern, std::int64_t n) {
  std::int64_t pairs = 0;
  for (std::int64_t begin = 0; begin < n; begin += pattern.block) {
    const std::int64_t rows = std::min(pattern.block, n - begin);
    const std::int64_t before = std::min(begin, (pattern.top_k - 1) * pattern.block);
    pairs += rows * (rows + 1) / 2 + rows * before;
  }
  return pairs;
}

std::int64_t sequence_pairs(const AttentionPlan& plan, std::int64_t sequence) {
  const std::int64_t n = plan.length(sequence);
  if (plan.pattern().sees_all(n)) return n * (n + 1) / 2;
  if (plan.pattern().kind == AttentionKind::Sa) return stochastic_pairs(plan, sequence);
  if (plan.pattern().kind == AttentionKind::Moba) return block_pairs(plan.pattern(), n);
  const std::int64_t window = plan.pattern().window;
  return window * (window + 1) / 2 + (n - window) * window;
}

}  // namespace

double mean_visible_keys(const AttentionPattern& pattern, std::int64_t n) {
  if (pattern.sees_all(n)) return to_double(n + 1) / 2;
  if (pattern.kind == AttentionKind::Swa) {
    const double w = to_double(pattern.window);
    return w - w * (w - 1) / (2 * to_double(n));
  }
  if (pattern.kind == AttentionKind::Moba) return to_double(block_pairs(pattern, n)) / to_double(n);
  // Two tokens whose ranks are in band see each other one way: the later one sees the earlier.
  if (pattern.circular) return to_double(pattern.slots() + 1) / 2;
  const std::int64_t above = pattern.offset();
  const std::int64_t below = pattern.slots() - 1 - above;
  return 1 + (line_pairs(n, above) + line_pairs(n, below)) / (2 * to_double(n));
}

std::int64_t visible_pairs(const AttentionPlan& plan) {
  std::int64_t pairs = 0;
  for (std::int64_t s = 0; s < plan.sequences(); ++s) pairs += sequence_pairs(plan, s);
  return pairs;
}

double mean_visible_keys(const AttentionPlan& plan) {
  return to_double(visible_pairs(plan)) / to_double(plan.tokens());
}

}  // namespace flywheel

#pragma once

#include <cstdint>

#include "attention/plan.h"

namespace flywheel {

// Mean number of visible keys of a query, over the positions of a sequence of n tokens; for sa its
// expectation over the permutations. Exact (docs/attention.md).
double mean_visible_keys(const AttentionPattern& pattern, std::int64_t n);

// The number of visible (query, key) pairs of all sequences, exact. O(T slots) for sa.
std::int64_t visible_pairs(const AttentionPlan& plan);

// Exact mean number of visible keys over all tokens of the plan.
double mean_visible_keys(const AttentionPlan& plan);

}  // namespace flywheel

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/rows.h"

namespace flywheel::cpu {
namespace {

// The chosen experts of a token go to `slots` for now, their weights to `weights`.
void choose_experts(const RouteExperts& args, std::int64_t token,
                    std::vector<std::int32_t>& order) {
  const std::int64_t experts = args.logits.shape[1];
  const std::int64_t chosen = args.weights.shape[1];
  const float* logits = args.logits.f32() + token * experts;
  float* weights = args.weights.f32() + token * chosen;
  std::int32_t* slots = args.slots.i32() + token * chosen;
  order.resize(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + chosen, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  const float highest = logits[order[0]];
  float total = 0;
  for (std::int64_t e = 0; e < experts; ++e) total += std::exp(logits[e] - highest);
  float sum = 0;
  for (std::int64_t k = 0; k < chosen; ++k) {
    slots[k] = order[static_cast<std::size_t>(k)];
    weights[k] = std::exp(logits[slots[k]] - highest) / total;
    sum += weights[k];
  }
  if (!args.normalize) return;
  for (std::int64_t k = 0; k < chosen; ++k) weights[k] /= sum;
}

// Counting sort of the pairs by expert; turns the experts in `slots` into rows.
void group_by_expert(const RouteExperts& args) {
  const std::int64_t experts = args.logits.shape[1];
  const std::int64_t chosen = args.weights.shape[1];
  const std::int64_t pairs = args.slots.elements();
  std::int32_t* slots = args.slots.i32();
  std::int32_t* offsets = args.offsets.i32();
  std::fill_n(offsets, experts + 1, 0);
  for (std::int64_t pair = 0; pair < pairs; ++pair) ++offsets[slots[pair] + 1];
  std::partial_sum(offsets, offsets + experts + 1, offsets);
  std::vector<std::int32_t> next(offsets, offsets + experts);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t row = next[static_cast<std::size_t>(slots[pair])]++;
    args.rows.i32()[row] = static_cast<std::int32_t>(pair / chosen);
    slots[pair] = row;
  }
}

}  // namespace

void route_experts(const RouteExperts& args, ThreadPool& pool) {
  const std::int64_t tokens = args.logits.shape[0];
  pool.for_range(tokens, row_grain(8 * args.logits.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   std::vector<std::int32_t> order;
                   for (std::int64_t token = begin; token < end; ++token) {
                     choose_experts(args, token, order);
                   }
                 });
  group_by_expert(args);
}

void combine_experts(const CombineExperts& args, ThreadPool& pool) {
  const std::int64_t width = args.out.shape[1];
  const std::int64_t chosen = args.weights.shape[1];
  check_indices("combine_experts: slots", args.slots, args.x.shape[0]);
  pool.for_range(args.out.shape[0], row_grain(chosen * width),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t token = begin; token < end; ++token) {
                     float* out = args.out.f32() + token * width;
                     std::fill_n(out, width, 0.0F);
                     for (std::int64_t k = 0; k < chosen; ++k) {
                       const float weight = args.weights.f32()[token * chosen + k];
                       const float* x = args.x.f32() + args.slots.i32()[token * chosen + k] * width;
                       for (std::int64_t i = 0; i < width; ++i) out[i] += weight * x[i];
                     }
                   }
                 });
}

}  // namespace flywheel::cpu

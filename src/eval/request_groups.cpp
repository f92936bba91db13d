#include "eval/request_groups.h"

#include <algorithm>
#include <numeric>

namespace flywheel {
namespace {

std::span<const std::int32_t> inputs_of(const TokenRequest& request) {
  return std::span(request.tokens).first(request.tokens.size() - 1);
}

std::span<const std::int32_t> context_of(const TokenRequest& request) {
  return std::span(request.tokens).first(static_cast<std::size_t>(request.first_scored));
}

bool equal(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool less(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

// Equal contexts side by side, among these equal inputs.
std::vector<std::size_t> by_context(std::span<const TokenRequest> requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto x = context_of(requests[a]);
    const auto y = context_of(requests[b]);
    if (!equal(x, y)) return less(x, y);
    return less(inputs_of(requests[a]), inputs_of(requests[b]));
  });
  return order;
}

std::vector<RequestGroup> groups_of_contexts(std::span<const TokenRequest> requests) {
  std::vector<RequestGroup> groups;
  for (const std::size_t index : by_context(requests)) {
    const auto context = context_of(requests[index]);
    const auto branch = inputs_of(requests[index]).subspan(context.size());
    if (groups.empty() || !equal(groups.back().text, context)) groups.push_back({context, {}});
    auto& branches = groups.back().branches;
    if (branches.empty() || !equal(branches.back().tokens, branch))
      branches.push_back({branch, {}});
    branches.back().requests.push_back(index);
  }
  return groups;
}

bool is_worth_sharing(const RequestGroup& group, const TransformerLimits& limits) {
  return group.attention_rows() - group.tokens() >= group.attention_rows() / 8 &&
         group.tokens() <= limits.max_tokens &&
         group.attention_rows() <= limits.max_attention_rows &&
         group.sequences() <= limits.max_sequences;
}

}  // namespace

std::int64_t RequestGroup::tokens() const {
  std::int64_t count = std::ssize(text);
  for (const Branch& branch : branches) count += std::ssize(branch.tokens);
  return count;
}

std::int64_t RequestGroup::sequences() const {
  const auto longer = std::count_if(branches.begin(), branches.end(),
                                    [](const Branch& branch) { return !branch.tokens.empty(); });
  return std::max<std::int64_t>(1, longer);
}

std::int64_t RequestGroup::attention_rows() const {
  return tokens() + (sequences() - 1) * std::ssize(text);
}

std::vector<RequestGroup> group_requests(std::span<const TokenRequest> requests,
                                         const TransformerLimits& limits) {
  std::vector<RequestGroup> groups;
  for (RequestGroup& group : groups_of_contexts(requests)) {
    if (is_worth_sharing(group, limits)) {
      groups.push_back(std::move(group));
      continue;
    }
    for (RequestGroup::Branch& branch : group.branches) {
      const auto inputs = inputs_of(requests[branch.requests.front()]);
      groups.push_back({inputs, {{{}, std::move(branch.requests)}}});
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const RequestGroup& a, const RequestGroup& b) {
    return a.tokens() > b.tokens();
  });
  return groups;
}

bool GroupPacker::fits(const RequestGroup& group) const {
  const std::int64_t all = tokens() + group.tokens();
  const std::int64_t rows = std::ssize(attention_rows_) + group.attention_rows();
  return all <= limits_.max_tokens && (rows == all || rows <= limits_.max_attention_rows) &&
         std::ssize(cu_seqlens_) - 1 + group.sequences() <= limits_.max_sequences;
}

std::int64_t GroupPacker::add(const RequestGroup& group) {
  const std::int64_t text = tokens();
  const std::int64_t length = std::ssize(group.text);
  add_tokens(group.text, 0);
  for (const RequestGroup::Branch& branch : group.branches) {
    if (branch.tokens.empty()) continue;
    add_sequence(text, length, tokens(), std::ssize(branch.tokens));
    add_tokens(branch.tokens, length);
  }
  if (tokens() == text + length) add_sequence(text, length, 0, 0);
  return text;
}

void GroupPacker::add_tokens(std::span<const std::int32_t> tokens, std::int64_t first_position) {
  inputs_.insert(inputs_.end(), tokens.begin(), tokens.end());
  no_targets_.resize(inputs_.size(), -1);
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    positions_.push_back(static_cast<std::int32_t>(first_position + i));
  }
}

void GroupPacker::add_sequence(std::int64_t text, std::int64_t text_length, std::int64_t branch,
                               std::int64_t branch_length) {
  const auto add_rows = [this](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      attention_rows_.push_back(static_cast<std::int32_t>(i));
    }
  };
  add_rows(text, text_length);
  add_rows(branch, branch_length);
  cu_seqlens_.push_back(static_cast<std::int32_t>(attention_rows_.size()));
}

void GroupPacker::clear() {
  for (auto* values : {&inputs_, &no_targets_, &positions_, &attention_rows_}) values->clear();
  cu_seqlens_.assign(1, 0);
}

PackedTokens GroupPacker::view() const {
  PackedTokens packed{.inputs = inputs_,
                      .targets = no_targets_,
                      .positions = positions_,
                      .cu_seqlens = cu_seqlens_};
  if (attention_rows_.size() > inputs_.size()) packed.attention_rows = attention_rows_;
  return packed;
}

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/request.h"
#include "model/transformer.h"

namespace flywheel {

// Requests that run together: a text, and what stands behind it in each of the sequences that
// begin with it. A request's inputs (its tokens but the last) are text + branch. Spans are into the
// requests.
struct RequestGroup {
  struct Branch {
    std::span<const std::int32_t> tokens;  // may be empty
    std::vector<std::size_t> requests;     // with these very inputs
  };
  std::span<const std::int32_t> text;
  std::vector<Branch> branches;  // all different

  std::int64_t tokens() const;          // that run
  std::int64_t sequences() const;       // of attention
  std::int64_t attention_rows() const;  // tokens of these sequences
};

// Groups with the most tokens first; equal inputs are one branch. If the limits have attention
// rows, requests of one context share it where that saves an eighth of the tokens or more.
std::vector<RequestGroup> group_requests(std::span<const TokenRequest> requests,
                                         const TransformerLimits& limits);

// Collects groups back to back for one pass of a Transformer.
class GroupPacker {
 public:
  explicit GroupPacker(const TransformerLimits& limits) : limits_(limits) {}

  bool fits(const RequestGroup& group) const;
  // Returns the number of the group's first token; a branch's tokens follow those of the text and
  // of the branches before.
  std::int64_t add(const RequestGroup& group);
  void clear();

  std::int64_t tokens() const { return std::ssize(inputs_); }
  PackedTokens view() const;  // valid until the next change

 private:
  void add_tokens(std::span<const std::int32_t> tokens, std::int64_t first_position);
  void add_sequence(std::int64_t text, std::int64_t text_length, std::int64_t branch,
                    std::int64_t branch_length);

  TransformerLimits limits_;
  std::vector<std::int32_t> inputs_, no_targets_, positions_, attention_rows_;
  std::vector<std::int32_t> cu_seqlens_{0};
};

}  // namespace flywheel

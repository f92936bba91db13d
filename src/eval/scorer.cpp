#include "eval/scorer.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "eval/request_groups.h"

namespace flywheel {
namespace {

// One pass that fills up.
class ScoringPass {
 public:
  ScoringPass(Transformer& model, const TransformerLimits& limits, const PermutationDraw& draw,
              std::span<const TokenRequest> requests, std::vector<std::vector<TokenScore>>& results)
      : model_(model), draw_(draw), requests_(requests), results_(results), packer_(limits) {}

  bool fits(const RequestGroup& group) const { return packer_.fits(group); }

  void add(const RequestGroup& group) {
    const std::int64_t text = packer_.add(group);
    const std::int64_t length = std::ssize(group.text);
    std::int64_t branch_begin = text + length;
    for (const RequestGroup::Branch& branch : group.branches) {
      for (const std::size_t request : branch.requests) {
        for (auto t = requests_[request].first_scored; t < std::ssize(requests_[request].tokens);
             ++t) {
          const std::int64_t before = t - 1;  // the token that predicts token t
          rows_.push_back(before < length ? text + before : branch_begin + before - length);
          targets_.push_back(requests_[request].tokens[static_cast<std::size_t>(t)]);
          owners_.push_back(request);
        }
      }
      branch_begin += std::ssize(branch.tokens);
    }
  }

  // Runs it and makes it empty again. Returns its number of tokens.
  std::int64_t run() {
    if (rows_.empty()) return 0;
    losses_.resize(rows_.size());
    most_likely_.resize(rows_.size());
    model_.score(packer_.view(), draw_, rows_, targets_, losses_, most_likely_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      require(std::isfinite(losses_[i]), ErrorKind::Data,
              "the model's loss is {}: its weights or its activations are not finite", losses_[i]);
      results_[owners_[i]].push_back(
          {.loss = losses_[i], .is_greedy = most_likely_[i] == targets_[i]});
    }
    const std::int64_t tokens = packer_.tokens();
    packer_.clear();
    rows_.clear();
    targets_.clear();
    owners_.clear();
    return tokens;
  }

 private:
  Transformer& model_;
  PermutationDraw draw_;
  std::span<const TokenRequest> requests_;
  std::vector<std::vector<TokenScore>>& results_;
  GroupPacker packer_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> targets_;
  std::vector<std::size_t> owners_;  // the request of each row
  std::vector<float> losses_;
  std::vector<std::int32_t> most_likely_;
};

}  // namespace

Scorer::Scorer(Transformer& model, const TransformerLimits& limits, std::uint64_t seed)
    : model_(model), limits_(limits), seed_(seed) {
  require(!model.config().attention.per_sequence, ErrorKind::Internal,
          "per_sequence permutations would make scores depend on the packing");
}

std::vector<std::vector<TokenScore>> Scorer::score(std::span<const TokenRequest> requests,
                                                   std::uint32_t draw,
                                                   const EvaluationProgress& progress) {
  std::vector<std::vector<TokenScore>> results(requests.size());
  const std::vector<RequestGroup> groups = group_requests(requests, limits_);
  std::int64_t all = 0;
  for (const RequestGroup& group : groups) {
    require(group.tokens() <= limits_.max_tokens, ErrorKind::Config,
            "a text of {} tokens does not fit into the {} tokens of a pass", group.tokens(),
            limits_.max_tokens);
    all += group.tokens();
  }
  const PermutationDraw permutations{
      .seed = seed_, .stream = RandomStream::kEvaluationPermutation, .draw = draw};
  ScoringPass pass(model_, limits_, permutations, requests, results);
  std::int64_t done = 0;
  const auto run = [&] {
    done += pass.run();
    if (progress) progress(done, all);
  };
  for (const RequestGroup& group : groups) {
    if (!pass.fits(group)) run();
    pass.add(group);
  }
  run();
  return results;
}

Score total(std::span<const TokenScore> scores) {
  Score result;
  for (const TokenScore& score : scores) {
    result.log_likelihood -= double{score.loss};
    result.is_greedy = result.is_greedy && score.is_greedy;
  }
  return result;
}

double mean_visible_keys(const ModelConfig& config, std::span<const TokenRequest> requests) {
  std::map<std::int64_t, std::int64_t> tokens;  // by length
  for (const TokenRequest& request : requests) {
    const auto length = std::ssize(request.tokens) - 1;
    tokens[length] += length;
  }
  double keys = 0;
  double all = 0;
  for (const auto& [length, count] : tokens) {
    keys += Transformer::cost(config, length).mean_visible_keys * static_cast<double>(count);
    all += static_cast<double>(count);
  }
  return all > 0 ? keys / all : 0;
}

}  // namespace flywheel

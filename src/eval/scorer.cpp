#include "eval/scorer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "model/sequence_packer.h"

namespace flywheel {
namespace {

std::span<const std::int32_t> inputs_of(const TokenRequest& request) {
  return std::span(request.tokens).first(request.tokens.size() - 1);
}

bool equal_inputs(const TokenRequest& a, const TokenRequest& b) {
  const auto x = inputs_of(a);
  const auto y = inputs_of(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// The longest first; equal inputs side by side.
std::vector<std::size_t> packing_order(std::span<const TokenRequest> requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto x = inputs_of(requests[a]);
    const auto y = inputs_of(requests[b]);
    if (x.size() != y.size()) return x.size() > y.size();
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  });
  return order;
}

// One pass that fills up.
class ScoringPass {
 public:
  ScoringPass(Transformer& model, const PermutationDraw& draw,
              std::vector<std::vector<TokenScore>>& results)
      : model_(model), draw_(draw), results_(results) {}

  bool fits(std::int64_t tokens, const TransformerLimits& limits) const {
    return packer_.tokens() + tokens <= limits.max_tokens &&
           packer_.sequences() < limits.max_sequences;
  }

  void add_sequence(std::span<const std::int32_t> inputs) {
    begin_ = packer_.tokens();
    no_targets_.resize(std::max(no_targets_.size(), inputs.size()), -1);
    packer_.add(inputs, std::span(no_targets_).first(inputs.size()));
  }

  // Of the sequence that was added last.
  void add_request(std::size_t index, const TokenRequest& request) {
    for (auto t = request.first_scored; t < std::ssize(request.tokens); ++t) {
      rows_.push_back(begin_ + t - 1);
      targets_.push_back(request.tokens[static_cast<std::size_t>(t)]);
      owners_.push_back(index);
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
  std::vector<std::vector<TokenScore>>& results_;
  SequencePacker packer_;
  std::int64_t begin_ = 0;
  std::vector<std::int32_t> no_targets_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> targets_;
  std::vector<std::size_t> owners_;  // the request of each row
  std::vector<float> losses_;
  std::vector<std::int32_t> most_likely_;
};

// f(request's index, whether its inputs are new) in packing order.
template <class F>
void for_each_in_order(std::span<const TokenRequest> requests, const F& f) {
  const TokenRequest* last = nullptr;
  for (const std::size_t index : packing_order(requests)) {
    const TokenRequest& request = requests[index];
    f(index, last == nullptr || !equal_inputs(*last, request));
    last = &request;
  }
}

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
  std::int64_t all = 0;
  for_each_in_order(requests, [&](std::size_t index, bool is_new) {
    const auto length = std::ssize(inputs_of(requests[index]));
    require(length <= limits_.max_tokens, ErrorKind::Config,
            "a text of {} tokens does not fit into the {} tokens of a pass", length,
            limits_.max_tokens);
    if (is_new) all += length;
  });
  ScoringPass pass(model_,
                   {.seed = seed_, .stream = RandomStream::kEvaluationPermutation, .draw = draw},
                   results);
  std::int64_t done = 0;
  const auto run = [&] {
    done += pass.run();
    if (progress) progress(done, all);
  };
  for_each_in_order(requests, [&](std::size_t index, bool is_new) {
    const auto inputs = inputs_of(requests[index]);
    if (is_new) {
      if (!pass.fits(std::ssize(inputs), limits_)) run();
      pass.add_sequence(inputs);
    }
    pass.add_request(index, requests[index]);
  });
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
    const auto length = std::ssize(inputs_of(request));
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

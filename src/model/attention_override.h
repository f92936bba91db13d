#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/model_config.h"

namespace flywheel {

// Another attention for a trained model, whose weights stay as they are (docs/attention.md,
// "Inference"). What is not set stays the model's.
struct AttentionOverride {
  std::string pattern;  // full, swa, sa, moba or sa_swa; "": each layer's own
  std::optional<std::int64_t> window;
  std::optional<Band> band;
  std::optional<Budget> budget;
  std::optional<bool> circular;
  std::optional<std::int64_t> moba_block;  // not together with window, which says it, too
  std::optional<std::int64_t> moba_topk;
  std::string layers = "all";  // all, even, odd, or numbers from 0: "0,3,8-11"

  bool operator==(const AttentionOverride&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("pattern", self.pattern, "full, swa, sa, moba or sa_swa; empty: each layer's own");
    visit("window", self.window, "keys of a window");
    visit("band", self.band, "centered or trailing");
    visit("budget", self.budget, "slots or matched");
    visit("circular", self.circular, "sa: whether ranks form a circle");
    visit("moba_block", self.moba_block, "moba: keys of a block");
    visit("moba_topk", self.moba_topk, "moba: blocks that a query sees");
    visit("layers", self.layers, "all, even, odd, or numbers from 0: 0,3,8-11");
  }
};

// The config to build the model from. Error Config names the option at fault: sa_swa needs the
// gates of a model trained with it.
ModelConfig with_attention(const ModelConfig& config, const AttentionOverride& attention);

// "full", or "swa window 128 in layers 0,2; full in layers 1,3": for a person.
std::string describe_attention(const ModelConfig& config);

}  // namespace flywheel

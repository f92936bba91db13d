#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/pattern.h"
#include "core/fields.h"

namespace flywheel {

enum class NormKind : std::uint8_t { RmsNorm, LayerNorm };
constexpr auto enum_names(NormKind) {
  return std::array{EnumName{"rms_norm", NormKind::RmsNorm},
                    EnumName{"layer_norm", NormKind::LayerNorm}};
}

enum class MlpKind : std::uint8_t { Swiglu, Gelu };
constexpr auto enum_names(MlpKind) {
  return std::array{EnumName{"swiglu", MlpKind::Swiglu}, EnumName{"gelu", MlpKind::Gelu}};
}

enum class PositionKind : std::uint8_t { Rope, Learned };
constexpr auto enum_names(PositionKind) {
  return std::array{EnumName{"rope", PositionKind::Rope},
                    EnumName{"learned", PositionKind::Learned}};
}

enum class RopeScalingKind : std::uint8_t { None, Linear, Llama3 };
constexpr auto enum_names(RopeScalingKind) {
  return std::array{EnumName{"none", RopeScalingKind::None},
                    EnumName{"linear", RopeScalingKind::Linear},
                    EnumName{"llama3", RopeScalingKind::Llama3}};
}

enum class GateKind : std::uint8_t { Head, Channel };
constexpr auto enum_names(GateKind) {
  return std::array{EnumName{"head", GateKind::Head}, EnumName{"channel", GateKind::Channel}};
}

// An entry of attention.pattern. What is not set comes from the section around it.
struct LayerPatternConfig {
  std::string pattern = "full";
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> sa_window;
  std::optional<std::int64_t> swa_window;
  std::optional<Band> band;
  std::optional<Budget> budget;
  std::optional<std::int64_t> moba_block;
  std::optional<std::int64_t> moba_topk;
  std::optional<GateKind> gate;

  bool operator==(const LayerPatternConfig&) const = default;

  // "swa" stands for {"pattern": "swa"} (core/json_fields.h).
  void set_short_form(const std::string& name) {
    *this = {};
    pattern = name;
  }
  std::string short_form() const {
    LayerPatternConfig named;
    named.pattern = pattern;
    return *this == named ? pattern : "";
  }

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("pattern", self.pattern, "full, swa, sa, moba or sa_swa");
    visit("window", self.window, "keys of this layer's window");
    visit("sa_window", self.sa_window, "sa path of sa_swa");
    visit("swa_window", self.swa_window, "swa path of sa_swa");
    visit("band", self.band, "centered or trailing");
    visit("budget", self.budget, "slots or matched");
    visit("moba_block", self.moba_block, "keys of a block; 0 = window / moba_topk");
    visit("moba_topk", self.moba_topk, "blocks that a query sees");
    visit("gate", self.gate, "head or channel");
  }
};

struct AttentionConfig {
  std::vector<LayerPatternConfig> pattern{LayerPatternConfig{}};
  std::int64_t window = 256;
  std::int64_t sa_window = 0;
  std::int64_t swa_window = 0;
  Band band = Band::Centered;
  Budget budget = Budget::Slots;
  bool circular = true;
  bool per_sequence = false;
  std::int64_t moba_block = 0;
  std::int64_t moba_topk = 2;
  GateKind gate = GateKind::Head;

  bool operator==(const AttentionConfig&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("pattern", self.pattern, "full, swa, sa, moba or sa_swa a layer; repeats over the depth");
    visit("window", self.window, "keys of a window");
    visit("sa_window", self.sa_window, "sa path of sa_swa; 0 = window");
    visit("swa_window", self.swa_window, "swa path of sa_swa; 0 = window");
    visit("band", self.band, "sa: ranks on both sides of a query's own, or only before it");
    visit("budget", self.budget, "sa: window slots, or 2 window - 1 (as many keys as swa)");
    visit("circular", self.circular, "sa: ranks form a circle; false clips the band at the ends");
    visit("per_sequence", self.per_sequence, "sa: a permutation for each sequence of the batch");
    visit("moba_block", self.moba_block, "moba: keys of a block; 0 = window / moba_topk");
    visit("moba_topk", self.moba_topk, "moba: blocks that a query sees, its own among them");
    visit("gate", self.gate, "sa_swa: a gate for each head or for each channel");
  }
};

struct RopeScalingConfig {
  RopeScalingKind kind = RopeScalingKind::None;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScalingConfig&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("kind", self.kind, "none, linear (angles / factor) or llama3");
    visit("factor", self.factor, "how far positions are stretched");
    visit("low_freq_factor", self.low_freq_factor, "llama3");
    visit("high_freq_factor", self.high_freq_factor, "llama3");
    visit("original_max_position_embeddings", self.original_max_position_embeddings, "llama3");
  }
};

// A mixture of experts in place of each layer's MLP: a softmax router sends a token to the experts
// with the highest probabilities (Qwen3-MoE).
struct ExpertsConfig {
  std::int64_t count = 0;
  std::int64_t per_token = 8;
  std::int64_t intermediate_size = 768;
  bool normalize = true;

  bool operator==(const ExpertsConfig&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("count", self.count, "experts of a layer; 0 = one dense MLP (experts: inference only)");
    visit("per_token", self.per_token, "experts that a token is sent to");
    visit("intermediate_size", self.intermediate_size, "width of an expert");
    visit("normalize", self.normalize, "a token's expert weights sum to 1");
  }
};

// A decoder-only transformer: GPT-2, Llama, Mistral, Qwen3 and our own are values of this struct.
struct ModelConfig {
  std::int64_t vocab_size = 50257;
  std::int64_t hidden_size = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 2048;
  std::int64_t max_positions = 2048;
  NormKind norm = NormKind::RmsNorm;
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::Rope;
  double rope_theta = 10000.0;
  RopeScalingConfig rope_scaling;
  bool qk_norm = false;
  MlpKind mlp = MlpKind::Swiglu;
  bool attention_bias = false;
  bool mlp_bias = false;
  ExpertsConfig experts;
  bool tie_embeddings = true;
  double initializer_range = 0.02;
  AttentionConfig attention;

  bool operator==(const ModelConfig&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("vocab_size", self.vocab_size, "tokens (padded to a multiple of 64 inside only)");
    visit("hidden_size", self.hidden_size, "width of the residual stream");
    visit("layers", self.layers, "number of layers");
    visit("heads", self.heads, "query heads");
    visit("kv_heads", self.kv_heads, "key and value heads; 0 = heads");
    visit("head_dim", self.head_dim, "size of a head, a multiple of 8; 0 = hidden_size / heads");
    visit("intermediate_size", self.intermediate_size, "width of the MLP");
    visit("max_positions", self.max_positions, "longest sequence");
    visit("norm", self.norm, "rms_norm or layer_norm");
    visit("norm_eps", self.norm_eps, "added to the variance");
    visit("position", self.position, "rope or learned");
    visit("rope_theta", self.rope_theta, "base of the rotary frequencies");
    visit("rope_scaling", self.rope_scaling, "stretches the rotary positions");
    visit("qk_norm", self.qk_norm, "RMS norm of each query and key head");
    visit("mlp", self.mlp, "swiglu or gelu");
    visit("attention_bias", self.attention_bias, "biases of the q, k, v and o projections");
    visit("mlp_bias", self.mlp_bias, "biases of the MLP");
    visit("experts", self.experts, "a mixture of experts in place of the MLP");
    visit("tie_embeddings", self.tie_embeddings, "the output uses the embedding table");
    visit("initializer_range", self.initializer_range, "standard deviation of initial weights");
    visit("attention", self.attention, "which keys a query sees, layer by layer");
  }
};

// One layer's attention: a single path, or two gated ones (sa and swa).
struct LayerAttention {
  bool gated = false;
  AttentionPattern path{};      // full, swa, sa or moba; the sa path of a gated layer
  AttentionPattern swa_path{};  // the swa path of a gated layer
  GateKind gate = GateKind::Head;
};

// Calls report(path, fault) for every fault; paths are relative to the section
// ("attention.window").
using FaultReport = std::function<void(std::string_view path, std::string_view fault)>;
void validate(const ModelConfig& config, const FaultReport& report);
// Error Config that lists all faults, if there are any.
void require_valid(const ModelConfig& config);

// With kv_heads, head_dim, sa_window and swa_window filled in where they are 0.
ModelConfig with_defaults(ModelConfig config);

// The names that attention.pattern knows; list_patterns() is "full, swa, ... and sa_swa".
const std::vector<std::string>& pattern_names();
std::string list_patterns();

// The attention of every layer. The config is valid.
std::vector<LayerAttention> resolve_layers(const ModelConfig& config);
// Whether the output at a token depends on it and the tokens before it alone. Under sa it depends
// on the length of the text, too.
bool is_prefix_consistent(const ModelConfig& config);

// GPT-2's architecture (learned positions, LayerNorm, GELU, biases everywhere, one head size): its
// parameters carry GPT-2's names and shapes. All others carry Llama's.
bool is_gpt2_family(const ModelConfig& config);

}  // namespace flywheel

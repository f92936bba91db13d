#include "model/model_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/nearest_name.h"

namespace flywheel {
namespace {

class Validator {
 public:
  explicit Validator(const FaultReport& report) : report_(report) {}

  void positive(std::string_view path, std::int64_t value) {
    check(value >= 1, path, fmt::format("{} is not a positive number", value));
  }
  void positive(std::string_view path, double value) {
    check(value > 0, path, fmt::format("{} is not a positive number", value));
  }
  void not_negative(std::string_view path, std::int64_t value) {
    check(value >= 0, path, fmt::format("{} is negative", value));
  }
  void check(bool holds, std::string_view path, std::string_view fault) {
    if (!holds) report_(path, fault);
  }

 private:
  const FaultReport& report_;
};

void validate_sizes(const ModelConfig& c, Validator& v) {
  v.positive("vocab_size", c.vocab_size);
  v.positive("hidden_size", c.hidden_size);
  v.positive("layers", c.layers);
  v.positive("heads", c.heads);
  v.not_negative("kv_heads", c.kv_heads);
  v.not_negative("head_dim", c.head_dim);
  v.positive("intermediate_size", c.intermediate_size);
  v.positive("max_positions", c.max_positions);
  v.positive("norm_eps", c.norm_eps);
  v.check(c.initializer_range >= 0, "initializer_range", "must not be negative");
  if (c.heads < 1) return;
  if (c.kv_heads > 0) {
    v.check(c.heads % c.kv_heads == 0, "kv_heads",
            fmt::format("{} does not divide the {} heads", c.kv_heads, c.heads));
  }
  if (c.head_dim == 0) {
    v.check(c.hidden_size % c.heads == 0, "heads",
            fmt::format("{} does not divide hidden_size {}; set head_dim", c.heads, c.hidden_size));
  }
  const std::int64_t head_dim = c.head_dim > 0 ? c.head_dim : c.hidden_size / c.heads;
  v.check(head_dim >= 8 && head_dim % 8 == 0, "head_dim",
          fmt::format("{} is not a multiple of 8", head_dim));
}

void validate_rope(const ModelConfig& c, Validator& v) {
  v.positive("rope_theta", c.rope_theta);
  const RopeScalingConfig& s = c.rope_scaling;
  if (s.kind == RopeScalingKind::None) return;
  v.check(c.position == PositionKind::Rope, "rope_scaling.kind", "needs \"position\": \"rope\"");
  v.check(s.factor >= 1, "rope_scaling.factor", fmt::format("{} is below 1", s.factor));
  if (s.kind != RopeScalingKind::Llama3) return;
  v.positive("rope_scaling.low_freq_factor", s.low_freq_factor);
  v.check(s.high_freq_factor > s.low_freq_factor, "rope_scaling.high_freq_factor",
          "must be greater than low_freq_factor");
  v.positive("rope_scaling.original_max_position_embeddings", s.original_max_position_embeddings);
}

void validate_experts(const ModelConfig& c, Validator& v) {
  const ExpertsConfig& e = c.experts;
  v.not_negative("experts.count", e.count);
  if (e.count < 1) return;
  v.check(1 <= e.per_token && e.per_token <= e.count, "experts.per_token",
          fmt::format("{} is not 1 to the {} experts", e.per_token, e.count));
  v.positive("experts.intermediate_size", e.intermediate_size);
  v.check(c.mlp == MlpKind::Swiglu && !c.mlp_bias, "experts.count",
          "experts need \"mlp\": \"swiglu\" and no mlp_bias");
}

std::int64_t moba_topk(const AttentionConfig& section, const LayerPatternConfig& entry) {
  return entry.moba_topk.value_or(section.moba_topk);
}

// 0: the window makes the blocks.
std::int64_t moba_block(const AttentionConfig& section, const LayerPatternConfig& entry) {
  if (entry.moba_block) return *entry.moba_block;
  return entry.window ? 0 : section.moba_block;
}

void validate_moba(const AttentionConfig& section, const LayerPatternConfig& entry,
                   const std::string& path, Validator& v) {
  const std::int64_t topk = moba_topk(section, entry);
  const std::int64_t block = moba_block(section, entry);
  const std::int64_t window = entry.window.value_or(section.window);
  v.positive(path + ".moba_topk", topk);
  v.not_negative(path + ".moba_block", block);
  if (topk < 1 || block != 0) return;
  v.check(window % topk == 0, path + ".window",
          fmt::format("{} is not a multiple of moba_topk {}; set moba_block", window, topk));
}

void validate_entry(const AttentionConfig& section, const LayerPatternConfig& entry,
                    const std::string& path, Validator& v) {
  const std::string nearest = nearest_name(entry.pattern, pattern_names());
  v.check(nearest == entry.pattern, path + ".pattern",
          fmt::format("unknown pattern \"{}\"{}; known are {}", entry.pattern,
                      nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest),
                      list_patterns()));
  if (entry.window) v.positive(path + ".window", *entry.window);
  if (entry.sa_window) v.positive(path + ".sa_window", *entry.sa_window);
  if (entry.swa_window) v.positive(path + ".swa_window", *entry.swa_window);
  if (entry.pattern == "moba") validate_moba(section, entry, path, v);
}

void validate_attention(const AttentionConfig& a, Validator& v) {
  v.positive("attention.window", a.window);
  v.not_negative("attention.sa_window", a.sa_window);
  v.not_negative("attention.swa_window", a.swa_window);
  v.check(!a.pattern.empty(), "attention.pattern", "the list is empty; name at least one pattern");
  for (std::size_t i = 0; i < a.pattern.size(); ++i) {
    validate_entry(a, a.pattern[i], fmt::format("attention.pattern.{}", i), v);
  }
}

LayerAttention resolve_layer(const AttentionConfig& section, const LayerPatternConfig& entry) {
  const std::int64_t window = entry.window.value_or(section.window);
  const auto path_window = [&](const std::optional<std::int64_t>& own, std::int64_t shared) {
    if (own) return *own;
    return entry.window || shared == 0 ? window : shared;
  };
  const AttentionPattern sa{.kind = AttentionKind::Sa,
                            .window = window,
                            .band = entry.band.value_or(section.band),
                            .budget = entry.budget.value_or(section.budget),
                            .circular = section.circular,
                            .per_sequence = section.per_sequence};
  const AttentionPattern swa{.kind = AttentionKind::Swa, .window = window};
  if (entry.pattern == "full") return {.path = {.kind = AttentionKind::Full}};
  if (entry.pattern == "swa") return {.path = swa};
  if (entry.pattern == "sa") return {.path = sa};
  if (entry.pattern == "moba") {
    const std::int64_t topk = moba_topk(section, entry);
    const std::int64_t block = moba_block(section, entry);
    return {.path = {.kind = AttentionKind::Moba,
                     .block = block == 0 ? window / topk : block,
                     .top_k = topk}};
  }
  LayerAttention both{
      .gated = true, .path = sa, .swa_path = swa, .gate = entry.gate.value_or(section.gate)};
  both.path.window = path_window(entry.sa_window, section.sa_window);
  both.swa_path.window = path_window(entry.swa_window, section.swa_window);
  return both;
}

}  // namespace

void validate(const ModelConfig& config, const FaultReport& report) {
  Validator validator(report);
  validate_sizes(config, validator);
  validate_rope(config, validator);
  validate_experts(config, validator);
  validate_attention(config.attention, validator);
}

void require_valid(const ModelConfig& config) {
  std::string faults;
  validate(config, [&](std::string_view path, std::string_view fault) {
    faults += fmt::format("{}model.{}: {}", faults.empty() ? "" : "; ", path, fault);
  });
  require(faults.empty(), ErrorKind::Config, "{}", faults);
}

ModelConfig with_defaults(ModelConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.hidden_size / config.heads;
  AttentionConfig& attention = config.attention;
  if (attention.sa_window == 0) attention.sa_window = attention.window;
  if (attention.swa_window == 0) attention.swa_window = attention.window;
  return config;
}

const std::vector<std::string>& pattern_names() {
  static const std::vector<std::string> names{"full", "swa", "sa", "moba", "sa_swa"};
  return names;
}

std::string list_patterns() {
  const std::vector<std::string>& names = pattern_names();
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::vector<LayerAttention> resolve_layers(const ModelConfig& config) {
  std::vector<LayerAttention> layers;
  const auto& entries = config.attention.pattern;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const auto& entry = entries[static_cast<std::size_t>(layer) % entries.size()];
    layers.push_back(resolve_layer(config.attention, entry));
  }
  return layers;
}

bool is_prefix_consistent(const ModelConfig& config) {
  const std::vector<LayerAttention> layers = resolve_layers(config);
  return std::none_of(layers.begin(), layers.end(), [](const LayerAttention& layer) {
    return layer.path.kind == AttentionKind::Sa;
  });
}

bool is_gpt2_family(const ModelConfig& config) {
  const ModelConfig c = with_defaults(config);
  return c.position == PositionKind::Learned && c.norm == NormKind::LayerNorm &&
         c.mlp == MlpKind::Gelu && c.attention_bias && c.mlp_bias && !c.qk_norm &&
         c.kv_heads == c.heads && c.head_dim * c.heads == c.hidden_size;
}

}  // namespace flywheel

#pragma once

#include <array>
#include <cstdint>
#include <string>
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

// One layer's attention: a single path, or two gated ones (sa and swa).
struct LayerAttention {
  bool gated = false;
  AttentionPattern path;      // full, swa or sa; the sa path of a gated layer
  AttentionPattern swa_path;  // the swa path of a gated layer
  GateKind gate = GateKind::Head;
};

// An entry of attention.pattern: a name ("full", "swa", "sa", "sa_swa") or an object; unset values
// (window 0) come from the section around it.
struct LayerPatternConfig {
  std::string pattern;
  std::int64_t window = 0;
  std::int64_t sa_window = 0;
  std::int64_t swa_window = 0;
  std::string band;  // "" = the section's
  std::string budget;
  std::string gate;
};

struct AttentionConfig {
  std::vector<LayerPatternConfig> pattern;  // repeats over the depth
  std::int64_t window = 256;
  std::int64_t sa_window = 0;   // 0 = window
  std::int64_t swa_window = 0;  // 0 = window
  Band band = Band::Centered;
  Budget budget = Budget::Slots;
  bool circular = true;
  bool per_sequence = false;
  GateKind gate = GateKind::Head;
};

struct RopeScalingConfig {
  RopeScalingKind kind = RopeScalingKind::None;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
};

// A decoder-only transformer: GPT-2, Llama, Mistral, Qwen3 and our own are values of this struct.
struct ModelConfig {
  std::int64_t vocab_size = 50257;  // padded to a multiple of 64 inside only
  std::int64_t hidden_size = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;  // 0 = heads
  std::int64_t head_dim = 0;  // 0 = hidden_size / heads; a multiple of 8
  std::int64_t intermediate_size = 2048;
  std::int64_t max_positions = 2048;
  NormKind norm = NormKind::RmsNorm;
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::Rope;
  double rope_theta = 10000.0;
  RopeScalingConfig rope_scaling;
  bool qk_norm = false;
  MlpKind mlp = MlpKind::Swiglu;
  bool attention_bias = false;  // on q, k, v, o
  bool mlp_bias = false;
  bool tie_embeddings = true;
  double initializer_range = 0.02;
  AttentionConfig attention;
};

}  // namespace flywheel

#include "model/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "core/checksum.h"
#include "core/error.h"
#include "core/interleaved_rows.h"
#include "core/philox.h"

namespace flywheel {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes, a cache line
constexpr std::int64_t kVocabMultiple = 64;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class LayoutBuilder {
 public:
  LayoutBuilder(const ModelConfig& config, DType matrices)
      : config_(with_defaults(config)),
        matrices_(matrices),
        gpt2_(is_gpt2_family(config)),
        std_(static_cast<float>(config.initializer_range)) {}

  ParameterLayout build() {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t padding = padded_vocab_size(config_) - config_.vocab_size;
    const std::string root = gpt2_ ? "transformer." : "model.";
    layout_.embedding = table(root + (gpt2_ ? "wte" : "embed_tokens"), config_.vocab_size, padding);
    if (config_.position == PositionKind::Learned) {
      layout_.position_embedding =
          vectors(root + (gpt2_ ? "wpe" : "embed_positions"), {config_.max_positions, d});
    }
    end_bucket();
    const auto layers = resolve_layers(config_);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string prefix = fmt::format("{}{}.{}.", root, gpt2_ ? "h" : "layers", i);
      layer_ = static_cast<std::int64_t>(i);
      layout_.layers.push_back(layer(prefix, layers[i]));
      layout_.layers.back().index = layer_;
      end_bucket();
    }
    layer_ = -1;
    layout_.final_norm = norm(root + (gpt2_ ? "ln_f" : "norm"));
    layout_.head =
        config_.tie_embeddings ? layout_.embedding : table("lm_head", config_.vocab_size, padding);
    end_bucket();
    return std::move(layout_);
  }

 private:
  Slot add(const std::string& name, const Shape& shape, float value, float std,
           DType dtype = DType::F32) {
    const Slot slot{layout_.bytes, shape, dtype};
    layout_.specs.push_back({name, slot, shape.rank() == 2, value, std});
    layout_.specs.back().layer = layer_;
    layout_.bytes += bytes_of(dtype, shape.elements());
    return slot;
  }

  void align() { layout_.bytes = round_up(layout_.bytes, kAlignment); }
  void end_bucket() {
    align();
    layout_.bucket_ends.push_back(layout_.bytes);
  }

  // In the type of matrices.
  Slot add_matrix(const std::string& name, const Shape& shape, float std) {
    require(matrices_ == DType::F32 || shape[1] % kWeightBlock == 0, ErrorKind::Config,
            "{}: {} cannot be kept as {}: its rows are no multiple of 32; take f32", name,
            shape.to_string(), name_of(matrices_));
    const Slot slot = add(name, shape, 0, std, matrices_);
    layout_.specs.back().is_matrix = true;
    return slot;
  }

  // [rows + padding, hidden_size]
  Slot table(const std::string& name, std::int64_t rows, std::int64_t padding) {
    align();
    Slot slot = add_matrix(name + ".weight", {rows, config_.hidden_size}, std_);
    slot.shape = {rows + padding, config_.hidden_size};
    layout_.bytes += bytes_of(slot.dtype, padding * config_.hidden_size);
    return slot;
  }

  // A table of float32, whatever the matrices are.
  Slot vectors(const std::string& name, const Shape& shape) {
    align();
    return add(name + ".weight", shape, 0, std_);
  }

  NormSlot norm(const std::string& name) {
    align();
    NormSlot slot{.weight = add(name + ".weight", {config_.hidden_size}, 1, 0), .bias = {}};
    align();
    if (config_.norm == NormKind::LayerNorm) {
      slot.bias = add(name + ".bias", {config_.hidden_size}, 0, 0);
    }
    return slot;
  }

  struct Part {
    std::string name;
    std::int64_t out;
    std::int64_t expert = -1;
  };
  // Several projections of one input, side by side.
  LinearSlot linear(const std::vector<Part>& parts, std::int64_t in, bool in_out, bool bias,
                    float std, bool float32 = false) {
    LinearSlot slot{.weight = {}, .bias = {}, .in_out = in_out};
    std::int64_t out = 0;
    align();
    const std::int64_t weight_offset = layout_.bytes;
    for (const Part& part : parts) {
      const Shape shape = in_out ? Shape{in, part.out} : Shape{part.out, in};
      float32 ? add(part.name + ".weight", shape, 0, std)
              : add_matrix(part.name + ".weight", shape, std);
      layout_.specs.back().expert = part.expert;
      out += part.out;
    }
    slot.weight = {weight_offset, in_out ? Shape{in, out} : Shape{out, in},
                   float32 ? DType::F32 : matrices_};
    if (!bias) return slot;
    align();
    slot.bias = {layout_.bytes, {out}};
    for (const Part& part : parts) add(part.name + ".bias", {part.out}, 0, 0);
    return slot;
  }

  LayerSlots layer(const std::string& prefix, const LayerAttention& attention) {
    const float residual_std =
        std_ / static_cast<float>(std::sqrt(2.0 * static_cast<double>(config_.layers)));
    const std::int64_t d = config_.hidden_size;
    const std::int64_t f = config_.intermediate_size;
    const std::int64_t q = config_.heads * config_.head_dim;
    const std::int64_t kv = config_.kv_heads * config_.head_dim;
    const std::string self = prefix + (gpt2_ ? "attn." : "self_attn.");
    LayerSlots slots;

    slots.attention_norm = norm(prefix + (gpt2_ ? "ln_1" : "input_layernorm"));
    const std::vector<Part> qkv =
        gpt2_
            ? std::vector<Part>{{self + "c_attn", q + 2 * kv}}
            : std::vector<Part>{{self + "q_proj", q}, {self + "k_proj", kv}, {self + "v_proj", kv}};
    slots.qkv = linear(qkv, d, gpt2_, config_.attention_bias, std_);
    if (config_.qk_norm) {
      align();
      slots.q_norm = add(self + "q_norm.weight", {config_.head_dim}, 1, 0);
      slots.k_norm = add(self + "k_norm.weight", {config_.head_dim}, 1, 0);
    }
    if (attention.gated) {
      const std::int64_t gates = attention.gate == GateKind::Head ? config_.heads : q;
      // Zeros: both gates start at 1/2 everywhere.
      slots.gates =
          linear({{self + "gate_sa", gates}, {self + "gate_swa", gates}}, d, false, true, 0, true);
    }
    slots.attention_out = linear({{self + (gpt2_ ? "c_proj" : "o_proj"), d}}, q, gpt2_,
                                 config_.attention_bias, residual_std);

    const std::string mlp = prefix + "mlp.";
    slots.mlp_norm = norm(prefix + (gpt2_ ? "ln_2" : "post_attention_layernorm"));
    if (config_.experts.count > 0) {
      add_experts(slots, mlp, residual_std);
      return slots;
    }
    const std::vector<Part> mlp_in =
        config_.mlp == MlpKind::Swiglu
            ? std::vector<Part>{{mlp + "gate_proj", f}, {mlp + "up_proj", f}}
            : std::vector<Part>{{mlp + (gpt2_ ? "c_fc" : "up_proj"), f}};
    slots.mlp_in = linear(mlp_in, d, gpt2_, config_.mlp_bias, std_);
    slots.mlp_out = linear({{mlp + (gpt2_ ? "c_proj" : "down_proj"), d}}, f, gpt2_,
                           config_.mlp_bias, residual_std);
    return slots;
  }

  void add_experts(LayerSlots& slots, const std::string& mlp, float residual_std) {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t f = config_.experts.intermediate_size;
    slots.router = linear({{mlp + "gate", config_.experts.count}}, d, false, false, std_, true);
    std::vector<Part> in;
    std::vector<Part> out;
    for (std::int64_t e = 0; e < config_.experts.count; ++e) {
      const std::string expert = fmt::format("{}experts.{}.", mlp, e);
      in.push_back({expert + "gate_proj", f, e});
      in.push_back({expert + "up_proj", f, e});
      out.push_back({expert + "down_proj", d, e});
    }
    slots.experts_in = linear(in, d, false, false, std_);
    slots.experts_out = linear(out, f, false, false, residual_std);
  }

  const ModelConfig config_;
  const DType matrices_;
  bool gpt2_;
  float std_;
  std::int64_t layer_ = -1;  // that is laid out
  ParameterLayout layout_;
};

// Four standard normal numbers from one Philox block (Box & Muller 1958).
std::array<float, 4> four_normals(const std::array<std::uint32_t, 4>& words) {
  std::array<float, 4> normals{};
  for (unsigned pair = 0; pair < 2; ++pair) {
    const float uniform = (static_cast<float>(words[2 * pair] >> 8) + 0.5F) * 0x1.0p-24F;
    const float angle =
        static_cast<float>(words[2 * pair + 1] >> 8) * 0x1.0p-24F * (2 * std::numbers::pi_v<float>);
    const float radius = std::sqrt(-2 * std::log(uniform));
    normals[2 * pair] = radius * std::cos(angle);
    normals[2 * pair + 1] = radius * std::sin(angle);
  }
  return normals;
}

// Elements [begin, begin + out.size()) of a parameter; begin is a multiple of 4.
void fill_normals(std::span<float> out, std::int64_t begin, std::uint64_t seed, std::uint64_t name,
                  float mean, float std) {
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed),
                                         static_cast<std::uint32_t>(seed >> 32)};
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto block = static_cast<std::uint32_t>((static_cast<std::uint64_t>(begin) + i) / 4);
    const auto normals = four_normals(
        philox4x32({block, static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(name >> 32),
                    static_cast<std::uint32_t>(RandomStream::kInitialization)},
                   key));
    for (std::size_t j = 0; j < std::min<std::size_t>(4, out.size() - i); ++j) {
      out[i + j] = mean + std * normals[j];
    }
  }
}

}  // namespace

std::int64_t padded_vocab_size(const ModelConfig& config) {
  return round_up(config.vocab_size, kVocabMultiple);
}

ParameterLayout lay_out_parameters(const ModelConfig& config, DType matrices) {
  return LayoutBuilder(config, matrices).build();
}

bool can_interleave(const ModelConfig& config) {
  if (is_gpt2_family(config)) return false;
  const ParameterLayout layout = lay_out_parameters(config);
  return std::all_of(layout.specs.begin(), layout.specs.end(), [&](const ParameterSpec& spec) {
    const bool padded =
        spec.slot.offset == layout.embedding.offset || spec.slot.offset == layout.head.offset;
    const bool whole_groups = padded || spec.slot.shape[0] % kInterleavedRows == 0;
    return !spec.is_matrix || (whole_groups && spec.slot.shape[1] % kWeightBlock == 0);
  });
}

std::uint64_t rounding_seed(std::uint64_t seed, const std::string& name) {
  return seed ^ checksum(std::as_bytes(std::span(name)));
}

void initialize_parameter(Backend& backend, const ParameterSpec& spec, const TensorView& value,
                          std::uint64_t seed) {
  constexpr std::int64_t kChunk = 1 << 20;
  const TensorView flat = value.reshaped({value.elements()});
  const std::uint64_t name = checksum(std::as_bytes(std::span(spec.name)));
  std::vector<float> host(static_cast<std::size_t>(std::min(kChunk, value.elements())));
  for (std::int64_t begin = 0; begin < flat.elements(); begin += kChunk) {
    const std::int64_t end = std::min(begin + kChunk, flat.elements());
    const std::span<float> part(host.data(), static_cast<std::size_t>(end - begin));
    if (spec.initial_std == 0) {
      std::fill(part.begin(), part.end(), spec.initial_value);
    } else {
      fill_normals(part, begin, seed, name, spec.initial_value, spec.initial_std);
    }
    backend.upload(flat.rows(begin, end), part.data());
  }
}

}  // namespace flywheel

#include "model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/error.h"
#include "model/rope.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

struct Rename {
  std::string_view gguf;
  std::string_view huggingface;
};
constexpr std::array kOutsideLayers{
    Rename{"token_embd.weight", "model.embed_tokens.weight"},
    Rename{"output_norm.weight", "model.norm.weight"},
    Rename{"output.weight", "lm_head.weight"},
};
constexpr std::array kLayerParts{
    Rename{"attn_norm", "input_layernorm"},    Rename{"attn_q", "self_attn.q_proj"},
    Rename{"attn_k", "self_attn.k_proj"},      Rename{"attn_v", "self_attn.v_proj"},
    Rename{"attn_output", "self_attn.o_proj"}, Rename{"attn_q_norm", "self_attn.q_norm"},
    Rename{"attn_k_norm", "self_attn.k_norm"}, Rename{"ffn_norm", "post_attention_layernorm"},
    Rename{"ffn_gate", "mlp.gate_proj"},       Rename{"ffn_up", "mlp.up_proj"},
    Rename{"ffn_down", "mlp.down_proj"},       Rename{"ffn_gate_inp", "mlp.gate"},
};

// "blk.3.attn_q.weight" in parts.
struct LayerName {
  std::string_view layer;  // "3"
  std::string_view part;   // "attn_q"
  std::string_view kind;   // "weight" or "bias"
};

std::optional<LayerName> split_name(std::string_view name) {
  if (!name.starts_with("blk.")) return {};
  name.remove_prefix(4);
  const std::size_t first = name.find('.');
  const std::size_t last = name.rfind('.');
  if (first == name.npos || last <= first) return {};
  return LayerName{name.substr(0, first), name.substr(first + 1, last - first - 1),
                   name.substr(last + 1)};
}

// Hugging Face's name; a name that is not known stays, and so is refused by whoever loads.
std::string huggingface_name(std::string_view name) {
  for (const Rename& rename : kOutsideLayers) {
    if (name == rename.gguf) return std::string(rename.huggingface);
  }
  const auto layer = split_name(name);
  if (!layer) return std::string(name);
  for (const Rename& rename : kLayerParts) {
    if (layer->part != rename.gguf) continue;
    return fmt::format("model.layers.{}.{}.{}", layer->layer, rename.huggingface, layer->kind);
  }
  return std::string(name);
}

// Takes apart "ffn_gate_exps" and its like, [E, out, in].
void add_experts(const StoredTensor& tensor, const LayerName& stack, WeightsSource& source) {
  require(tensor.type != StoredType::Unsupported && tensor.shape.size() == 3, ErrorKind::Data,
          "{}: tensor '{}' is {} with {} dimensions; expected three, and one of {}",
          source.path().string(), tensor.name, tensor.type_name, tensor.shape.size(), kStoredTypes);
  std::string_view part = stack.part;  // "gate" is wanted
  part.remove_suffix(std::string_view("_exps").size());
  if (part.starts_with("ffn_")) part.remove_prefix(std::string_view("ffn_").size());
  std::vector<std::string> names;
  for (std::int64_t e = 0; e < tensor.shape.front(); ++e) {
    names.push_back(
        fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.{}", stack.layer, e, part, stack.kind));
  }
  source.add_stack(tensor, names);
}

// The reader of one architecture's keys.
class Metadata {
 public:
  explicit Metadata(const Gguf& file) : file_(file), prefix_(file.text("general.architecture")) {}

  const std::string& architecture() const { return prefix_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  std::int64_t size(std::string_view name) const { return bounded(name, file_.integer(key(name))); }
  std::int64_t size_or(std::string_view name, std::int64_t otherwise) const {
    return has(name) ? size(name) : otherwise;
  }
  // The shortest decimal that is the file's float32: 1e-5, not 9.99999975e-06.
  double number_or(std::string_view name, double otherwise) const {
    const double value = file_.number_or(key(name), otherwise);
    return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
  }
  std::string text_or(std::string_view name, std::string_view otherwise) const {
    return file_.text_or(key(name), otherwise);
  }
  template <class Value>
  [[noreturn]] void refuse(std::string_view name, const Value& value,
                           std::string_view expected) const {
    fail(ErrorKind::Config, "{}: {}: {} is not supported; expected {}", file_.source(), key(name),
         value, expected);
  }

 private:
  std::int64_t bounded(std::string_view name, std::int64_t value) const {
    if (value < 0 || value > INT32_MAX) refuse(name, value, "0 to 2147483647");
    return value;
  }
  const Gguf& file_;
  std::string prefix_;
};

void read_scaling(const Metadata& metadata, ModelConfig& config) {
  const std::string type = metadata.text_or("rope.scaling.type", "none");
  if (type == "none") return;
  if (type != "linear") metadata.refuse("rope.scaling.type", type, "none or linear");
  config.rope_scaling.kind = RopeScalingKind::Linear;
  config.rope_scaling.factor = metadata.number_or("rope.scaling.factor", 1.0);
}

// Llama 3.1 and its kin: the file has the divisors of the frequencies in place of the rule that
// made them. The rule's numbers are those of every such model published; they must give back the
// divisors.
void read_divisors(const Gguf& file, const GgufTensor& tensor, ModelConfig& config) {
  const ModelConfig plain = with_defaults(config);
  std::vector<float> divisors(static_cast<std::size_t>(plain.head_dim / 2));
  const bool fits =
      tensor.type == StoredType::F32 && tensor.bytes.size() == divisors.size() * sizeof(float);
  require(fits, ErrorKind::Data, "{}: tensor '{}' should hold {} F32 divisors", file.source(),
          tensor.name, divisors.size());
  to_floats(tensor.type, tensor.bytes.data(), divisors);
  config.rope_scaling = {.kind = RopeScalingKind::Llama3,
                         .factor = double{*std::max_element(divisors.begin(), divisors.end())},
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position_embeddings = 8192};
  const std::vector<float> before = rope_frequencies(plain);
  const std::vector<float> after = rope_frequencies(with_defaults(config));
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    const double expected = double{before[i]} / double{after[i]};
    require(std::abs(expected - double{divisors[i]}) <= 1e-4 * expected, ErrorKind::Config,
            "{}: tensor '{}': element {} is {}; only the scaling of Llama 3 (low 1, high 4, "
            "original length 8192) is supported, which would make it {}",
            file.source(), tensor.name, i, divisors[i], expected);
  }
}

void refuse_unsupported(const Metadata& metadata, const ModelConfig& config) {
  const std::int64_t head_dim = with_defaults(config).head_dim;
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    const std::int64_t value = metadata.size_or(name, head_dim);
    if (value != head_dim) metadata.refuse(name, value, fmt::format("{}", head_dim));
  }
  if (metadata.size_or("expert_count", 0) != config.experts.count) {
    metadata.refuse("expert_count", metadata.size("expert_count"),
                    fmt::format("{}", config.experts.count));
  }
}

bool has_tensor(const Gguf& file, std::string_view name) {
  return file.find(name) != nullptr;
}

}  // namespace

ModelConfig gguf_config(const Gguf& file) {
  const Metadata metadata(file);
  const bool experts = metadata.architecture() == "qwen3moe";
  const bool qwen3 = experts || metadata.architecture() == "qwen3";
  require(qwen3 || metadata.architecture() == "llama", ErrorKind::Config,
          "{}: general.architecture: \"{}\" is not supported; expected \"llama\", \"qwen3\" or "
          "\"qwen3moe\"",
          file.source(), metadata.architecture());
  const GgufTensor* embedding = file.find("token_embd.weight");
  require(embedding != nullptr && embedding->shape.size() == 2, ErrorKind::Data,
          "{}: the matrix 'token_embd.weight' is missing", file.source());
  ModelConfig config;
  config.vocab_size = embedding->shape[0];
  config.hidden_size = metadata.size("embedding_length");
  config.layers = metadata.size("block_count");
  config.heads = metadata.size("attention.head_count");
  config.kv_heads = metadata.size_or("attention.head_count_kv", config.heads);
  config.head_dim = metadata.size_or("attention.key_length", 0);
  config.intermediate_size = metadata.size("feed_forward_length");
  config.max_positions = metadata.size("context_length");
  config.norm_eps = metadata.number_or("attention.layer_norm_rms_epsilon", 1e-5);
  config.rope_theta = metadata.number_or("rope.freq_base", 10000.0);
  config.qk_norm = qwen3;
  if (experts) {
    config.experts = {.count = metadata.size("expert_count"),
                      .per_token = metadata.size("expert_used_count"),
                      .intermediate_size = metadata.size("expert_feed_forward_length"),
                      .normalize = true};
  }
  config.attention_bias = has_tensor(file, "blk.0.attn_q.bias");
  config.mlp_bias = has_tensor(file, "blk.0.ffn_up.bias");
  config.tie_embeddings = !has_tensor(file, "output.weight");
  if (const std::int64_t window = metadata.size_or("attention.sliding_window", 0); window > 0) {
    config.attention.window = window;
    config.attention.pattern.front().pattern = "swa";
  }
  read_scaling(metadata, config);
  std::string faults;
  validate(config, [&](std::string_view path, std::string_view fault) {
    faults += fmt::format("{}{}: {}", faults.empty() ? "" : "; ", path, fault);
  });
  require(faults.empty(), ErrorKind::Config, "{}: {}", file.source(), faults);
  refuse_unsupported(metadata, config);
  if (const GgufTensor* divisors = file.find("rope_freqs.weight")) {
    read_divisors(file, *divisors, config);
  }
  return config;
}

void add_gguf_tensors(const Gguf& file, const ModelConfig& given, WeightsSource& source) {
  const ModelConfig config = with_defaults(given);
  const bool interleaved = file.text("general.architecture") == "llama";
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;
    StoredTensor stored{.name = huggingface_name(tensor.name),
                        .shape = tensor.shape,
                        .type = tensor.type,
                        .type_name = tensor.type_name,
                        .bytes = tensor.bytes};
    const auto layer = split_name(tensor.name);
    if (layer && config.experts.count > 0 && layer->part.ends_with("_exps")) {
      add_experts(stored, *layer, source);
      continue;
    }
    if (interleaved && layer && layer->part == "attn_q") stored.interleaved_heads = config.heads;
    if (interleaved && layer && layer->part == "attn_k") stored.interleaved_heads = config.kv_heads;
    source.add(std::move(stored));
  }
}

GgufModel open_gguf_model(const fs::path& path) {
  auto bytes = std::make_shared<const MappedFile>(path);
  auto file = std::make_shared<const Gguf>(bytes->bytes(), path.string());
  GgufModel model{file, gguf_config(*file), WeightsSource(path)};
  model.weights.keep(bytes);
  add_gguf_tensors(*file, model.config, model.weights);
  return model;
}

}  // namespace flywheel

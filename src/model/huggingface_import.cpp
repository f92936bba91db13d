#include "model/huggingface_import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/json_fields.h"

namespace flywheel {
namespace {

// The fields of one object of a config.json; `prefix` is where it lies in the file.
class Fields {
 public:
  Fields(const Json& json, std::string source, std::string prefix = "")
      : json_(json), source_(std::move(source)), prefix_(std::move(prefix)) {}

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  bool absent(const char* key) const { return !json_.contains(key); }

  std::int64_t integer(const char* key) const {
    const Json& value = at(key);
    const bool fits = value.is_number_integer() && value >= 0 && value <= kMax;
    if (!fits) refuse(key, fmt::format("a whole number of 0 to {}", kMax));
    return value.get<std::int64_t>();
  }
  std::int64_t integer_or(const char* key, std::int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double number_or(const char* key, std::optional<double> otherwise) const {
    if (!has(key) && otherwise) return *otherwise;
    if (!at(key).is_number()) refuse(key, "a number");
    return at(key).get<double>();
  }
  bool boolean_or(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) refuse(key, "true or false");
    return at(key).get<bool>();
  }
  std::string text_or(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string()) refuse(key, "a string");
    return at(key).get<std::string>();
  }
  Fields object(const char* key) const {
    if (!at(key).is_object()) refuse(key, "an object");
    return {at(key), source_, fmt::format("{}{}.", prefix_, key)};
  }
  const Json& at(const char* key) const {
    require(json_.contains(key), ErrorKind::Config, "{}: {}{} is missing", source_, prefix_, key);
    return json_.at(key);
  }

  // The field must have one of these values, or be absent.
  void expect(const char* key, std::initializer_list<Json> values) const {
    if (!has(key) || std::find(values.begin(), values.end(), at(key)) != values.end()) return;
    std::vector<std::string> names;
    for (const Json& value : values) names.push_back(value.dump());
    refuse(key, fmt::format("{}", fmt::join(names, " or ")));
  }
  [[noreturn]] void refuse(const char* key, std::string_view supported) const {
    std::string value = at(key).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (value.size() > 80) value.replace(77, std::string::npos, "...");
    fail(ErrorKind::Config, "{}: {}{}: {} is not supported; expected {}", source_, prefix_, key,
         value, supported);
  }

 private:
  static constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const Json& json_;
  std::string source_;
  std::string prefix_;
};

// transformers 4 writes rope_theta and rope_scaling, 5 rope_parameters.
void read_rope(const Fields& fields, ModelConfig& config) {
  config.rope_theta = fields.number_or("rope_theta", 10000.0);
  fields.expect("partial_rotary_factor", {1, 1.0});
  const char* const key = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.has(key)) return;
  const Fields rope = fields.object(key);
  config.rope_theta = rope.number_or("rope_theta", config.rope_theta);
  rope.expect("partial_rotary_factor", {1, 1.0});
  for (const char* layered : {"full_attention", "sliding_attention"}) {
    if (rope.has(layered)) rope.refuse(layered, "one kind of rotary positions for all layers");
  }
  const char* const type_key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(type_key, "default");
  RopeScalingConfig& scaling = config.rope_scaling;
  if (type == "default") return;
  if (type == "linear") {
    scaling.kind = RopeScalingKind::Linear;
    scaling.factor = rope.number_or("factor", {});
  } else if (type == "llama3") {
    scaling.kind = RopeScalingKind::Llama3;
    scaling.factor = rope.number_or("factor", {});
    scaling.low_freq_factor = rope.number_or("low_freq_factor", {});
    scaling.high_freq_factor = rope.number_or("high_freq_factor", {});
    scaling.original_max_position_embeddings = rope.integer("original_max_position_embeddings");
  } else {
    rope.refuse(type_key, "\"default\", \"linear\" or \"llama3\"");
  }
}

// Full attention, a window everywhere, or what the list says of each layer.
void set_windows(ModelConfig& config, std::int64_t window, const std::vector<bool>& sliding) {
  config.attention.window = window;
  config.attention.pattern.clear();
  for (const bool slides : sliding) {
    config.attention.pattern.emplace_back().pattern = slides ? "swa" : "full";
  }
  const auto& pattern = config.attention.pattern;
  if (std::count(pattern.begin(), pattern.end(), pattern.front()) ==
      static_cast<std::ptrdiff_t>(pattern.size())) {
    config.attention.pattern.resize(1);
  }
}

std::vector<bool> sliding_layers(const Fields& fields, std::int64_t layers) {
  const Json& types = fields.at("layer_types");
  const char* const expected = "\"full_attention\" or \"sliding_attention\" for each layer";
  if (!types.is_array() || types.size() != static_cast<std::size_t>(layers)) {
    fields.refuse("layer_types", expected);
  }
  std::vector<bool> sliding;
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      fields.refuse("layer_types", expected);
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

void read_qwen3_windows(const Fields& fields, bool experts, ModelConfig& config) {
  const bool active = fields.boolean_or("use_sliding_window", false);
  std::vector<bool> sliding;
  if (fields.has("layer_types")) {
    sliding = sliding_layers(fields, config.layers);
  } else {
    const std::int64_t first = experts ? 0 : fields.integer_or("max_window_layers", 28);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      sliding.push_back(active && layer >= first);
    }
  }
  if (std::find(sliding.begin(), sliding.end(), true) == sliding.end()) return;
  set_windows(config, fields.integer_or("sliding_window", 4096), sliding);
}

void read_mistral_window(const Fields& fields, ModelConfig& config) {
  if (!fields.absent("sliding_window") && !fields.has("sliding_window")) return;
  const std::int64_t window = fields.integer_or("sliding_window", 4096);
  set_windows(config, window, std::vector<bool>(static_cast<std::size_t>(config.layers), true));
}

struct LlamaDefaults {
  std::int64_t kv_heads;  // 0: as many as heads
  std::int64_t head_dim;  // 0: hidden_size / heads
  std::int64_t max_positions;
};

ModelConfig read_llama_like(const Fields& fields, const LlamaDefaults& defaults) {
  ModelConfig config;
  config.hidden_size = fields.integer("hidden_size");
  config.layers = fields.integer("num_hidden_layers");
  config.heads = fields.integer("num_attention_heads");
  const bool all_heads =
      !fields.absent("num_key_value_heads") && !fields.has("num_key_value_heads");
  config.kv_heads = all_heads ? 0 : fields.integer_or("num_key_value_heads", defaults.kv_heads);
  config.head_dim = fields.integer_or("head_dim", defaults.head_dim);
  config.intermediate_size = fields.integer("intermediate_size");
  config.max_positions = fields.integer_or("max_position_embeddings", defaults.max_positions);
  config.norm = NormKind::RmsNorm;
  config.norm_eps = fields.number_or("rms_norm_eps", 1e-6);
  config.position = PositionKind::Rope;
  config.mlp = MlpKind::Swiglu;
  config.attention_bias = fields.boolean_or("attention_bias", false);
  config.mlp_bias = fields.boolean_or("mlp_bias", false);
  config.tie_embeddings = fields.boolean_or("tie_word_embeddings", false);
  fields.expect("hidden_act", {"silu"});
  read_rope(fields, config);
  return config;
}

// Every layer must have experts.
void read_experts(const Fields& fields, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  const char* const count = fields.has("num_experts") ? "num_experts" : "num_local_experts";
  experts.count = fields.integer_or(count, 128);
  if (experts.count == 0) fields.refuse(count, "1 or more");
  experts.per_token = fields.integer_or("num_experts_per_tok", 8);
  experts.intermediate_size = fields.integer_or("moe_intermediate_size", 768);
  experts.normalize = fields.boolean_or("norm_topk_prob", false);
  fields.expect("mlp_only_layers", {Json::array()});
  fields.expect("decoder_sparse_step", {1});
}

ModelConfig read_gpt2(const Fields& fields) {
  ModelConfig config;
  config.hidden_size = fields.integer("n_embd");
  config.layers = fields.integer("n_layer");
  config.heads = fields.integer("n_head");
  config.intermediate_size = fields.integer_or("n_inner", 4 * config.hidden_size);
  config.max_positions = fields.integer_or("n_positions", 1024);
  config.norm = NormKind::LayerNorm;
  config.norm_eps = fields.number_or("layer_norm_epsilon", 1e-5);
  config.position = PositionKind::Learned;
  config.mlp = MlpKind::Gelu;
  config.attention_bias = config.mlp_bias = true;
  config.tie_embeddings = fields.boolean_or("tie_word_embeddings", true);
  fields.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  fields.expect("scale_attn_weights", {true});
  fields.expect("scale_attn_by_inverse_layer_idx", {false});
  fields.expect("add_cross_attention", {false});
  return config;
}

ModelConfig read_model(const Fields& fields) {
  const std::string type = fields.text_or("model_type", "");
  if (type == "llama") return read_llama_like(fields, {0, 0, 2048});
  if (type == "mistral") {
    ModelConfig config = read_llama_like(fields, {8, 0, 131072});
    fields.expect("attention_bias", {false});
    fields.expect("mlp_bias", {false});
    read_mistral_window(fields, config);
    return config;
  }
  if (type == "qwen3" || type == "qwen3_moe") {
    const bool experts = type == "qwen3_moe";
    ModelConfig config = read_llama_like(
        fields, experts ? LlamaDefaults{4, 0, 32768} : LlamaDefaults{32, 128, 32768});
    config.qk_norm = true;
    fields.expect("mlp_bias", {false});
    if (experts) read_experts(fields, config);
    read_qwen3_windows(fields, experts, config);
    return config;
  }
  if (type == "gpt2") return read_gpt2(fields);
  if (!fields.has("model_type")) fields.at("model_type");
  fields.refuse("model_type", "\"llama\", \"mistral\", \"qwen3\", \"qwen3_moe\" or \"gpt2\"");
}

}  // namespace

ModelConfig import_huggingface(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  require(json.is_object(), ErrorKind::Config, "{}: expected an object of fields", source);
  const Fields fields(json, source);
  if (fields.has("quantization_config")) {
    fields.refuse("quantization_config", "weights in F32, F16 or BF16");
  }
  ModelConfig config = read_model(fields);
  config.vocab_size = fields.integer("vocab_size");
  config.initializer_range = fields.number_or("initializer_range", 0.02);
  std::string faults;
  validate(config, [&](std::string_view path, std::string_view fault) {
    faults += fmt::format("{}{}: {}", faults.empty() ? "" : "; ", path, fault);
  });
  require(faults.empty(), ErrorKind::Config, "{}: {}", source, faults);
  return config;
}

std::vector<std::int32_t> token_ids(std::string_view text, const std::string& key,
                                    const std::string& source) {
  const Json json = parse_json(text, source);
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || found->is_null()) return {};
  std::vector<std::int32_t> ids;
  for (const Json& id : found->is_array() ? *found : Json::array({*found})) {
    require(id.is_number_integer() && id >= -1 && id <= std::numeric_limits<std::int32_t>::max(),
            ErrorKind::Config, "{}: {}: expected a token's id or a list of them", source, key);
    if (id >= 0) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace flywheel

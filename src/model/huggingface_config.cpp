#include "model/huggingface_config.h"

#include <algorithm>

#include "core/error.h"
#include "core/json_fields.h"
#include "model/huggingface_import.h"

namespace flywheel {
namespace {

// What the layers have in common, as far as transformers can say it.
struct LayerSummary {
  bool all_full = true;
  bool all_swa = true;
  bool full_or_swa = true;    // with one window
  std::int64_t window = 0;    // of the swa layers
  std::vector<bool> sliding;  // by layer
};

LayerSummary summarize(const ModelConfig& config) {
  LayerSummary summary;
  for (const LayerAttention& layer : resolve_layers(config)) {
    const bool full = !layer.gated && layer.path.kind == AttentionKind::Full;
    const bool swa = !layer.gated && layer.path.kind == AttentionKind::Swa;
    const bool same = summary.window == 0 || summary.window == layer.path.window;
    if (swa && summary.window == 0) summary.window = layer.path.window;
    summary.all_full = summary.all_full && full;
    summary.all_swa = summary.all_swa && swa && same;
    summary.full_or_swa = summary.full_or_swa && (full || (swa && same));
    summary.sliding.push_back(swa);
  }
  return summary;
}

Json rope_scaling_json(const RopeScalingConfig& scaling) {
  if (scaling.kind == RopeScalingKind::None) return nullptr;
  Json json{{"rope_type", name_of_enum(scaling.kind)}, {"factor", scaling.factor}};
  if (scaling.kind == RopeScalingKind::Llama3) {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
    json["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return json;
}

Json gpt2_json(const ModelConfig& c) {
  return {{"n_embd", c.hidden_size},
          {"n_layer", c.layers},
          {"n_head", c.heads},
          {"n_positions", c.max_positions},
          {"n_ctx", c.max_positions},
          {"n_inner", c.intermediate_size},
          {"layer_norm_epsilon", c.norm_eps},
          {"activation_function", "gelu_new"},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"resid_pdrop", 0.0}};
}

Json llama_json(const ModelConfig& c) {
  return {{"hidden_size", c.hidden_size},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"intermediate_size", c.intermediate_size},
          {"max_position_embeddings", c.max_positions},
          {"hidden_act", c.mlp == MlpKind::Swiglu ? "silu" : "gelu_pytorch_tanh"},
          {"rms_norm_eps", c.norm_eps},
          {"rope_theta", c.rope_theta},
          {"rope_scaling", rope_scaling_json(c.rope_scaling)},
          {"attention_bias", c.attention_bias},
          {"mlp_bias", c.mlp_bias},
          {"attention_dropout", 0.0},
          {"pretraining_tp", 1}};
}

void add_experts(Json& json, const ExpertsConfig& experts) {
  json["num_experts"] = experts.count;
  json["num_experts_per_tok"] = experts.per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["norm_topk_prob"] = experts.normalize;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = Json::array();
  json["router_aux_loss_coef"] = 0.001;
  json["output_router_logits"] = false;
}

void add_sliding_window(Json& json, const std::string& type, const LayerSummary& layers) {
  const Json window = layers.window > 0 ? Json(layers.window) : Json(nullptr);
  if (type == "mistral") json["sliding_window"] = window;
  if (type != "qwen3" && type != "qwen3_moe") return;
  json["sliding_window"] = window;
  json["use_sliding_window"] = layers.window > 0;
  json["max_window_layers"] = layers.window > 0 ? 0 : static_cast<int>(layers.sliding.size());
  if (type == "qwen3_moe") return;  // all layers slide, or none does
  json["layer_types"] = Json::array();
  for (const bool sliding : layers.sliding) {
    json["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
  }
}

std::string architecture(const std::string& type) {
  if (type == "gpt2") return "GPT2LMHeadModel";
  if (type == "llama") return "LlamaForCausalLM";
  if (type == "mistral") return "MistralForCausalLM";
  if (type == "qwen3") return "Qwen3ForCausalLM";
  if (type == "qwen3_moe") return "Qwen3MoeForCausalLM";
  return "FlywheelForCausalLM";
}

Json token_json(const std::vector<std::int32_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

}  // namespace

std::string huggingface_model_type(const ModelConfig& config) {
  const ModelConfig c = with_defaults(config);
  const LayerSummary layers = summarize(c);
  if (is_gpt2_family(c)) return layers.all_full ? "gpt2" : "flywheel";
  const bool llama_like = c.norm == NormKind::RmsNorm && c.position == PositionKind::Rope &&
                          c.mlp == MlpKind::Swiglu && c.hidden_size % c.heads == 0;
  if (!llama_like) return "flywheel";
  if (c.experts.count > 0) {
    return c.qk_norm && (layers.all_full || layers.all_swa) ? "qwen3_moe" : "flywheel";
  }
  if (c.qk_norm) return layers.full_or_swa && !c.mlp_bias ? "qwen3" : "flywheel";
  if (layers.all_full) return "llama";
  return layers.all_swa && !c.attention_bias && !c.mlp_bias ? "mistral" : "flywheel";
}

std::string to_huggingface(const ModelConfig& config, const HuggingfaceNotes& notes) {
  const ModelConfig c = with_defaults(config);
  const std::string type = huggingface_model_type(c);
  Json json{
      {"architectures", {architecture(type)}}, {"model_type", type}, {"vocab_size", c.vocab_size}};
  json.update(is_gpt2_family(c) ? gpt2_json(c) : llama_json(c));
  if (c.experts.count > 0) add_experts(json, c.experts);
  add_sliding_window(json, type, summarize(c));
  json["tie_word_embeddings"] = c.tie_embeddings;
  json["initializer_range"] = c.initializer_range;
  json["bos_token_id"] = notes.begin < 0 ? Json(nullptr) : Json(notes.begin);
  json["eos_token_id"] = token_json(notes.end);
  json["pad_token_id"] = nullptr;
  json["torch_dtype"] = notes.dtype;
  json["use_cache"] = true;
  json["transformers_version"] = "4.57.0";
  json["flywheel"] = write_fields(config);
  return json.dump(2) + "\n";
}

ModelConfig from_huggingface(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const auto fields = json.is_object() ? json.find("flywheel") : json.end();
  if (fields == json.end()) return import_huggingface(text, source);
  ModelConfig config;
  ConfigFaults faults(source);
  read_fields(config, *fields, faults, "flywheel");
  if (faults.empty()) {
    validate(config, [&](std::string_view path, std::string_view fault) {
      faults.add("flywheel." + std::string(path), fault);
    });
  }
  faults.throw_if_any();
  return config;
}

}  // namespace flywheel

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/run_command.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

// Models of the published sizes, all weights zero: sparse files that take no room on the disk.
namespace {

using Json = nlohmann::ordered_json;

// Tensors in bf16, one after the other, without bytes.
class SparseModel {
 public:
  explicit SparseModel(const fs::path& folder) : folder_(folder) {}

  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t bytes = 2;
    for (const std::int64_t size : shape) bytes *= size;
    header_[name] = {
        {"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {bytes_, bytes_ + bytes}}};
    bytes_ += bytes;
  }

  void write(const Json& config) const {
    write_text(folder_ / "config.json", config.dump(1));
    std::string header = header_.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const fs::path file = folder_ / "model.safetensors";
    std::ofstream out(file, std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header;
    out.close();
    fs::resize_file(file, 8 + length + static_cast<std::uint64_t>(bytes_));
  }

 private:
  static void write_text(const fs::path& file, const std::string& text) {
    std::ofstream(file) << text;
  }

  fs::path folder_;
  Json header_ = Json::object();
  std::int64_t bytes_ = 0;
};

// Qwen3-8B (experts = 0) or Qwen3-30B-A3B.
Json qwen3_config(bool experts) {
  Json config = {{"architectures", {experts ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM"}},
                 {"model_type", experts ? "qwen3_moe" : "qwen3"},
                 {"vocab_size", 151936},
                 {"hidden_size", experts ? 2048 : 4096},
                 {"num_hidden_layers", experts ? 48 : 36},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", experts ? 4 : 8},
                 {"head_dim", 128},
                 {"intermediate_size", experts ? 6144 : 12288},
                 {"max_position_embeddings", 40960},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 1e6},
                 {"rope_scaling", nullptr},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"tie_word_embeddings", false},
                 {"torch_dtype", "bfloat16"}};
  if (!experts) return config;
  config.update({{"num_experts", 128},
                 {"num_experts_per_tok", 8},
                 {"moe_intermediate_size", 768},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", Json::array()}});
  return config;
}

void add_mlp(SparseModel& model, const std::string& prefix, std::int64_t hidden,
             std::int64_t inner) {
  model.add(prefix + "gate_proj.weight", {inner, hidden});
  model.add(prefix + "up_proj.weight", {inner, hidden});
  model.add(prefix + "down_proj.weight", {hidden, inner});
}

void add_layer(SparseModel& model, const std::string& layer, const Json& config) {
  const auto size = [&](const char* key) { return config.at(key).get<std::int64_t>(); };
  const std::int64_t hidden = size("hidden_size");
  const std::int64_t head = size("head_dim");
  const std::int64_t queries = size("num_attention_heads") * head;
  const std::int64_t keys = size("num_key_value_heads") * head;
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    model.add(layer + norm + ".weight", {hidden});
  }
  for (const char* norm : {"q_norm", "k_norm"})
    model.add(layer + "self_attn." + norm + ".weight", {head});
  model.add(layer + "self_attn.q_proj.weight", {queries, hidden});
  model.add(layer + "self_attn.k_proj.weight", {keys, hidden});
  model.add(layer + "self_attn.v_proj.weight", {keys, hidden});
  model.add(layer + "self_attn.o_proj.weight", {hidden, queries});
  if (!config.contains("num_experts")) {
    return add_mlp(model, layer + "mlp.", hidden, size("intermediate_size"));
  }
  model.add(layer + "mlp.gate.weight", {size("num_experts"), hidden});
  for (std::int64_t e = 0; e < size("num_experts"); ++e) {
    add_mlp(model, layer + fmt::format("mlp.experts.{}.", e), hidden,
            size("moe_intermediate_size"));
  }
}

void write_model(const fs::path& folder, const Json& config) {
  const auto hidden = config.at("hidden_size").get<std::int64_t>();
  const auto vocabulary = config.at("vocab_size").get<std::int64_t>();
  SparseModel model(folder);
  model.add("model.embed_tokens.weight", {vocabulary, hidden});
  model.add("lm_head.weight", {vocabulary, hidden});
  model.add("model.norm.weight", {hidden});
  for (std::int64_t l = 0; l < config.at("num_hidden_layers").get<std::int64_t>(); ++l) {
    add_layer(model, fmt::format("model.layers.{}.", l), config);
  }
  model.write(config);
}

// `generate` with a prompt of 255 bytes and the token that begins it.
CommandResult generate(const fs::path& folder) {
  return run_command(
      fs::current_path(),
      fmt::format("'" GENERATE_PROGRAM
                  "' --model '{}' --prompt '{}' --tokens 8 --temperature 0 --batch 1",
                  folder.string(), std::string(255, 'a')));
}

}  // namespace

TEST_CASE("a model of 30B parameters runs with some of its experts in memory, or is refused") {
  const TemporaryFolder folder;
  write_model(folder.path(), qwen3_config(true));
  const CommandResult result = generate(folder.path());
  INFO(result.output);
  if (result.output.find("the model needs 57.0") == std::string::npos) {
    REQUIRE(result.exit_code == 0);
    WARN("skipped: this machine has room for it");
    return;
  }
  if (result.exit_code == 0) {
    CHECK(result.output.starts_with("warning: the model needs 57.0"));
    CHECK(result.output.find("of its experts (54.00 GiB)") != std::string::npos);
  } else {
    CHECK(result.output.starts_with("generate: error: the model needs 57.0"));
    CHECK(result.output.find("parameters in bf16 56.8") != std::string::npos);
    CHECK(result.output.find("with one layer at a time") != std::string::npos);
  }
}

TEST_CASE("a model of 8B parameters reads 256 tokens and writes 8 within 24 GiB") {
  if (std::getenv("FLYWHEEL_LARGE_MODELS") == nullptr) {
    WARN("skipped: takes 17 GiB of memory; FLYWHEEL_LARGE_MODELS=1 allows it");
    return;
  }
  const TemporaryFolder folder;
  write_model(folder.path(), qwen3_config(false));
  const CommandResult result = generate(folder.path());
  WARN(result.output);
  REQUIRE(result.exit_code == 0);
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const double gibibytes = static_cast<double>(usage.ru_maxrss) / (1 << 20);
  WARN("resident: " << gibibytes << " GiB");
  CHECK(gibibytes > 15);
  CHECK(gibibytes < 24);
}

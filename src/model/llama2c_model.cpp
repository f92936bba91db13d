#include "model/llama2c_model.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "core/error.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderBytes = 28;
constexpr std::int64_t kFloat = 4;

// dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative: an output layer of its
// own), seq_len
std::optional<ModelConfig> read_header(std::span<const std::byte> file) {
  std::array<std::int32_t, 7> header{};
  if (file.size() < kHeaderBytes) return {};
  std::memcpy(header.data(), file.data(), kHeaderBytes);
  ModelConfig config;
  config.tie_embeddings = header[5] > 0;
  if (header[5] < 0 && header[5] > INT32_MIN) header[5] = -header[5];
  for (const std::int32_t value : header) {
    if (value < 1 || value > (1 << 20)) return {};
  }
  config.hidden_size = header[0];
  config.intermediate_size = header[1];
  config.layers = header[2];
  config.heads = header[3];
  config.kv_heads = header[4];
  config.vocab_size = header[5];
  config.max_positions = header[6];
  if (config.layers > 4096 || config.hidden_size % config.heads != 0) return {};
  return config;
}

// Gives out the bytes of the tensors in the order of the file.
class Layout {
 public:
  Layout(WeightsSource* source, std::span<const std::byte> bytes)
      : source_(source), bytes_(bytes) {}

  void matrix(const std::string& name, std::int64_t out, std::int64_t in) { take(name, {out, in}); }
  void vector(const std::string& name, std::int64_t size) { take(name, {size}); }
  void skip(std::int64_t floats) { used_ += floats * kFloat; }

  // The same tensor of every layer; `name` has a place for its number.
  void layers(const ModelConfig& config, const char* name, std::vector<std::int64_t> shape,
              std::int64_t interleaved_heads = 0) {
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      take(fmt::format("model.layers.{}.{}.weight", layer, name), shape, interleaved_heads);
    }
  }
  std::int64_t used() const { return used_; }

 private:
  void take(const std::string& name, std::vector<std::int64_t> shape,
            std::int64_t interleaved_heads = 0) {
    std::int64_t size = kFloat;
    for (const std::int64_t extent : shape) size *= extent;
    if (source_ != nullptr) {
      source_->add(
          {.name = name,
           .shape = std::move(shape),
           .type = StoredType::F32,
           .type_name = "F32",
           .bytes = bytes_.subspan(static_cast<std::size_t>(used_), static_cast<std::size_t>(size)),
           .interleaved_heads = interleaved_heads});
    }
    used_ += size;
  }

  WeightsSource* source_;  // null: only adds up
  std::span<const std::byte> bytes_;
  std::int64_t used_ = kHeaderBytes;
};

// Returns the bytes of the whole file.
std::int64_t lay_out(const ModelConfig& c, WeightsSource* source,
                     std::span<const std::byte> bytes) {
  const std::int64_t d = c.hidden_size;
  const std::int64_t f = c.intermediate_size;
  const std::int64_t kv = c.kv_heads * (d / c.heads);
  Layout layout(source, bytes);
  layout.matrix("model.embed_tokens.weight", c.vocab_size, d);
  layout.layers(c, "input_layernorm", {d});
  layout.layers(c, "self_attn.q_proj", {d, d}, c.heads);
  layout.layers(c, "self_attn.k_proj", {kv, d}, c.kv_heads);
  layout.layers(c, "self_attn.v_proj", {kv, d});
  layout.layers(c, "self_attn.o_proj", {d, d});
  layout.layers(c, "post_attention_layernorm", {d});
  layout.layers(c, "mlp.gate_proj", {f, d});
  layout.layers(c, "mlp.down_proj", {d, f});
  layout.layers(c, "mlp.up_proj", {f, d});
  layout.vector("model.norm.weight", d);
  layout.skip(c.max_positions * (d / c.heads));  // rotary tables
  if (!c.tie_embeddings) layout.matrix("lm_head.weight", c.vocab_size, d);
  return layout.used();
}

}  // namespace

bool is_llama2c_model(const fs::path& path) {
  const MappedFile file(path);
  const auto config = read_header(file.bytes());
  return config && lay_out(*config, nullptr, {}) == static_cast<std::int64_t>(file.bytes().size());
}

Llama2cModel open_llama2c_model(const fs::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const auto config = read_header(file->bytes());
  require(config.has_value(), ErrorKind::Data,
          "{}: does not begin with the header of a llama2.c model (version 0)", path.string());
  const std::int64_t expected = lay_out(*config, nullptr, {});
  require(expected == static_cast<std::int64_t>(file->bytes().size()), ErrorKind::Data,
          "{}: {} bytes, but the header describes a llama2.c model (version 0) of {}; cut off, or "
          "of another kind",
          path.string(), file->bytes().size(), expected);
  require_valid(*config);
  Llama2cModel model{*config, WeightsSource(path)};
  model.weights.keep(file);
  lay_out(*config, &model.weights, file->bytes());
  return model;
}

}  // namespace flywheel

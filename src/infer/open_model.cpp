#include <array>

#include "core/error.h"
#include "data/gguf_tokenizer.h"
#include "data/llama2c_tokenizer.h"
#include "infer/load_model.h"
#include "infer/special_tokens.h"
#include "model/gguf_model.h"
#include "model/huggingface_config.h"
#include "model/huggingface_weights.h"
#include "model/llama2c_model.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

// Error Data if the tokenizer's vocabulary is larger than the model's.
void check_vocabulary(const OpenedModel& model) {
  require(model.tokenizer->vocab_size() <= model.config.vocab_size, ErrorKind::Data,
          "{}: the tokenizer has {} tokens, the model {}", model.path.string(),
          model.tokenizer->vocab_size(), model.config.vocab_size);
}

bool has_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") ||
         fs::exists(folder / "model.safetensors.index.json");
}

OpenedModel open_folder(const fs::path& path) {
  const fs::path folder = fs::exists(path / "latest") ? path / "latest" : path;
  require(has_weights(folder) && fs::exists(folder / "config.json"), ErrorKind::Data,
          "{}: no model; expected a run's folder (with latest), or config.json beside "
          "model.safetensors or model.safetensors.index.json",
          path.string());
  const fs::path config = folder / "config.json";
  const bool has_tokenizer =
      fs::exists(folder / "tokenizer.json") || fs::exists(folder / "encoder.json");
  OpenedModel model{
      .path = folder,
      .kind = fs::exists(folder / "state.json") ? "checkpoint" : "Hugging Face folder",
      .config = from_huggingface(read_text_file(config), config.string()),
      .tokenizer = Tokenizer::load(has_tokenizer ? folder.string() : "byte"),
      .special = {},
      .weights = open_huggingface_weights(folder)};
  model.special = read_special_tokens(folder, *model.tokenizer);
  return model;
}

// tokenizer.bin or tok512.bin, the number being the vocabulary's size.
fs::path llama2c_tokenizer_path(const fs::path& model, std::int64_t vocab_size) {
  const fs::path folder = model.parent_path();
  const fs::path numbered = folder / fmt::format("tok{}.bin", vocab_size);
  return fs::exists(numbered) ? numbered : folder / "tokenizer.bin";
}

OpenedModel open_llama2c_file(const fs::path& path) {
  Llama2cModel file = open_llama2c_model(path);
  auto tokenizer = read_llama2c_tokenizer(llama2c_tokenizer_path(path, file.config.vocab_size),
                                          file.config.vocab_size);
  return {.path = path,
          .kind = "llama2.c file",
          .config = std::move(file.config),
          .tokenizer = std::move(tokenizer),
          .special = {.begin = 1, .begin_every_prompt = true, .end = {1, 2}},
          .weights = std::move(file.weights)};
}

// The gguf's own ids; a text ends with the end of a turn, too.
SpecialTokens special_tokens(const Gguf& file) {
  const auto id_of = [&](std::string_view name) {
    return static_cast<std::int32_t>(
        file.integer_or(fmt::format("tokenizer.ggml.{}_token_id", name), -1));
  };
  SpecialTokens special{
      .begin = id_of("bos"), .begin_every_prompt = gguf_begins_every_text(file), .end = {}};
  for (const char* name : {"eos", "eot"}) {
    if (id_of(name) >= 0) special.end.push_back(id_of(name));
  }
  return special;
}

OpenedModel open_gguf_file(const fs::path& path) {
  GgufModel model = open_gguf_model(path);
  return {.path = path,
          .kind = "GGUF file",
          .config = std::move(model.config),
          .tokenizer = read_gguf_tokenizer(*model.file),
          .special = special_tokens(*model.file),
          .weights = std::move(model.weights)};
}

OpenedModel open_any(const fs::path& path) {
  require(fs::exists(path), ErrorKind::Data, "{}: no such file or folder", path.string());
  if (fs::is_directory(path)) return open_folder(path);
  if (path.extension() == ".gguf") return open_gguf_file(path);
  if (path.extension() == ".bin") return open_llama2c_file(path);
  fail(ErrorKind::Data,
       "{}: not a model; expected a run's folder, a checkpoint, a folder with config.json and "
       "safetensors files, a .gguf file or a llama2.c .bin file",
       path.string());
}

}  // namespace

OpenedModel open_model(const fs::path& path) {
  OpenedModel model = open_any(path);
  check_vocabulary(model);
  return model;
}

}  // namespace flywheel

#include "core/error.h"
#include "infer/load_model.h"
#include "infer/special_tokens.h"
#include "model/huggingface_config.h"
#include "model/huggingface_weights.h"

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

}  // namespace

OpenedModel open_model(const fs::path& path) {
  require(fs::exists(path), ErrorKind::Data, "{}: no such file or folder", path.string());
  require(fs::is_directory(path), ErrorKind::Data, "{}: not a model; expected a folder",
          path.string());
  OpenedModel model = open_folder(path);
  check_vocabulary(model);
  return model;
}

}  // namespace flywheel

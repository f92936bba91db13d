#include "train/model_files.h"

#include "core/file_io.h"
#include "model/huggingface_config.h"

namespace flywheel {

void write_model_config(const std::filesystem::path& path, const ModelConfig& config,
                        const Tokenizer& tokenizer) {
  std::optional<std::int64_t> end_of_text;
  if (tokenizer.end_of_document() >= 0) end_of_text = tokenizer.end_of_document();
  write_file_atomically(path, to_huggingface(config, end_of_text));
}

}  // namespace flywheel

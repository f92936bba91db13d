#include "train/model_files.h"

#include "core/file_io.h"
#include "model/huggingface_config.h"

namespace flywheel {

void write_model_config(const std::filesystem::path& path, const ModelConfig& config,
                        const Tokenizer& tokenizer) {
  HuggingfaceNotes notes{.begin = tokenizer.end_of_document()};
  if (notes.begin >= 0) notes.end = {notes.begin};
  write_file_atomically(path, to_huggingface(config, notes));
}

}  // namespace flywheel

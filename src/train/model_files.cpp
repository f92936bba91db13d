#include "train/model_files.h"

#include "core/file_io.h"
#include "core/json_fields.h"

namespace flywheel {

void write_model_config(const std::filesystem::path& path, const ModelConfig& config,
                        const Tokenizer& tokenizer) {
  Json json = {{"eos_token_id", tokenizer.end_of_document()}, {"flywheel", write_fields(config)}};
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace flywheel

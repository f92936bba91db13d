#pragma once

#include <filesystem>

#include "model/weights_source.h"

namespace flywheel {

// The weights of a folder: model.safetensors, or the files that model.safetensors.index.json lists.
// GPT-2's names get the prefix "transformer." where the file leaves it out; the experts that newer
// files stack (experts.gate_up_proj, experts.down_proj) are taken apart. Error Data: file, tensor
// and fault.
WeightsSource open_huggingface_weights(const std::filesystem::path& folder);

}  // namespace flywheel

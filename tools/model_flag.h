#pragma once

namespace flywheel {

// What --model takes in every program (docs/models.md).
inline constexpr const char* kModelFlagHelp =
    "a run's folder, a checkpoint, a Hugging Face folder, a .gguf or llama2.c .bin file";

}  // namespace flywheel

#pragma once

namespace flywheel {

// What --model takes in every program (docs/models.md).
inline constexpr const char* kModelFlagHelp =
    "a run's folder, a checkpoint, a Hugging Face folder, a .gguf or llama2.c .bin file";

// What --weights takes in the programs that run a model.
inline constexpr const char* kWeightsFlagHelp =
    "how weights are kept: file (as they are in the file, if all are bf16, f16 or q8_0, else f32), "
    "f32, bf16, f16 or q8_0";

}  // namespace flywheel

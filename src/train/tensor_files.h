#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace flywheel {

// A contiguous f32 tensor on a device and its name in a file.
struct NamedTensor {
  std::string name;
  TensorView view;
};

// Writes a safetensors file, through a few MiB of host memory.
void write_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                   Backend& backend);

// Reads what write_tensors wrote into the views. Error Data names file and tensor if the set of
// names, a shape or a dtype is another.
void read_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                  Backend& backend);

}  // namespace flywheel

#pragma once

#include "simt/emulator/block.h"

namespace simt {

// Runs block `index` of the launch to its end or first error.
void run_block(Worker& worker, Launch& launch, std::uint64_t index);

}  // namespace simt

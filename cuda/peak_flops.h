#pragma once

#include <string_view>

#include "core/dtype.h"

namespace flywheel::cuda {

// Floating-point operations a second of dense matrix products by the data sheet of the GPU that the
// driver calls `name`: in BF16 on tensor cores, in F32 without them. 0: not in the table.
double peak_flops_of(std::string_view name, DType type);

}  // namespace flywheel::cuda

#pragma once

#include <memory>

#include "backend/backend.h"

namespace flywheel {

// The CPU as a device, with a team of `threads` threads (0: one for every core this process may
// use). Error Device where the machine lacks AVX2 and FMA.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace flywheel

#pragma once

// The CUDA runtime API, or the emulator's (docs/cuda.md).
#ifdef FLYWHEEL_SIMT
#include "simt/emulator/runtime.h"
#else
#include <cuda_runtime_api.h>
#endif

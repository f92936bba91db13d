#pragma once

// cuBLASLt, or the emulator's plain loops behind the same calls.
#ifdef FLYWHEEL_SIMT
#include "simt/emulator/cublas_lt.h"
#else
#include <cublasLt.h>
#endif

#pragma once

// What device code may use, in place of CUDA's headers.
#include "simt/emulator/device.h"
#include "simt/emulator/intrinsics.h"
#include "simt/emulator/launch.h"
#include "simt/emulator/runtime.h"

#pragma once

namespace flywheel::cpu {

// What the kernels take beyond Highway's AVX-512, where the machine has it and no test or benchmark
// has switched it off.

// The tiles of AMX (Intel CPUs from Sapphire Rapids on), if the system lets this process use them.
bool use_amx();

// Products of int8 in vectors, VNNI (Intel from Ice Lake, AMD from Zen 4 on).
bool use_vnni();

void switch_matrix_units(bool on);

}  // namespace flywheel::cpu

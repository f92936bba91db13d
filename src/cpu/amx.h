#pragma once

namespace flywheel::cpu {

// Whether products go to the tiles of AMX (Intel CPUs from Sapphire Rapids on): the machine has
// them, the system lets this process use them and no test or benchmark has switched them off.
bool use_amx();

void switch_amx(bool on);

}  // namespace flywheel::cpu

#pragma once

namespace flywheel::cpu {

// Whether products go to the tiles of AMX (Intel CPUs from Sapphire Rapids on): the machine has
// them, the system lets this process use them and no test has switched them off.
bool use_amx();

void switch_amx_for_test(bool on);

}  // namespace flywheel::cpu

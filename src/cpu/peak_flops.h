#pragma once

namespace flywheel {

// Floating-point operations a second that this machine's multiply-add units reach with so many
// threads (0: all cores), in float32: the yardstick of utilisation. Measured in some 50 ms.
double measured_peak_flops(int threads);

}  // namespace flywheel

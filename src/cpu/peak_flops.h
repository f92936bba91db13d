#pragma once

#include "core/thread_pool.h"

namespace flywheel {

// Floating-point operations a second in float32 that this machine's multiply-add units reach with
// the pool's threads, from registers alone. One sample of about a millisecond.
double sample_peak_flops(ThreadPool& pool);

// The best of several samples with so many threads (0: all cores): the yardstick of utilisation.
double measured_peak_flops(int threads);

}  // namespace flywheel

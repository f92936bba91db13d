#pragma once

#include "hwy/targets.h"
#include "support/catch.h"

namespace flywheel::test {

// Runs body() once for each vector instruction set of the kernels that this machine has.
template <class Body>
void for_each_target(const Body& body) {
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2}) {
    hwy::SetSupportedTargetsForTest(0);
    if ((hwy::SupportedTargets() & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    INFO("target " << hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace flywheel::test

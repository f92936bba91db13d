#pragma once

#include "cpu/matrix_units.h"
#include "hwy/targets.h"
#include "support/catch.h"

namespace flywheel::test {

// Runs body() once for each vector instruction set of the kernels that this machine has.
template <class Body>
void for_each_target(const Body& body) {
  struct AllTargets {
    ~AllTargets() { hwy::SetSupportedTargetsForTest(0); }
  };
  const AllTargets afterwards;
  const auto targets = hwy::SupportedAndGeneratedTargets();
  REQUIRE_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    INFO("target " << hwy::TargetName(target));
    body();
  }
}

// The same with AVX-512's matrix units (AMX, VNNI) on and off.
template <class Body>
void for_each_unit(const Body& body) {
  struct AllUnits {
    ~AllUnits() { cpu::switch_matrix_units(true); }
  };
  for_each_target([&] {
    body();
    const bool has_units = cpu::use_amx() || cpu::use_vnni();
    if (!has_units || (hwy::SupportedTargets() & HWY_AVX3) == 0) return;
    const AllUnits afterwards;
    cpu::switch_matrix_units(false);
    INFO("without matrix units");
    body();
  });
}

}  // namespace flywheel::test

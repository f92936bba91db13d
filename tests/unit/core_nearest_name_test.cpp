#include "core/nearest_name.h"

#include <vector>

#include "support/catch.h"

using namespace flywheel;

TEST_CASE("the nearest name is the one a typing error would miss", "[core]") {
  const std::vector<std::string> names{"window", "warmup_steps", "max_steps"};
  REQUIRE(nearest_name("windw", names) == "window");
  REQUIRE(nearest_name("warmup_step", names) == "warmup_steps");
  REQUIRE(nearest_name("warm", names) == "warmup_steps");
  REQUIRE(nearest_name("wa", names).empty());
  REQUIRE(nearest_name("zzz", names).empty());
}

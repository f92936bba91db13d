#pragma once

#include <string>

#include "support/catch.h"

namespace flywheel::test {

// Fails, showing both, unless `text` has `part` in it.
inline void require_contains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  REQUIRE(text.find(part) != std::string::npos);
}

}  // namespace flywheel::test

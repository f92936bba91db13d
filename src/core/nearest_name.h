#pragma once

#include <span>
#include <string>
#include <string_view>

namespace flywheel {

// The candidate with the fewest single-letter edits from `name`; empty when none is close (more
// than a third of the letters, at least two, would have to change).
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace flywheel

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace flywheel {

// The candidate with the fewest single-letter edits from `name`; when none is close (more than a
// third of the letters, at least two, would have to change), the first that begins with it, if any.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace flywheel

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// The records of a comma-separated file (RFC 4180): a field in quotes may hold commas, line ends
// and doubled quotes. Error Data if a quote is not closed.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

}  // namespace flywheel

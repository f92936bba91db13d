#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// Text in which <, >, & and quotes are no markup.
std::string escaped(std::string_view text);

// Cells are text, the first row is the header. Rows whose cells (but the first) are not all alike
// are marked where `mark_differences`.
std::string html_table(const std::vector<std::vector<std::string>>& rows,
                       bool mark_differences = false);

// A whole page without anything from elsewhere; `body` is markup.
std::string html_page(std::string_view title, std::string_view body);

// A part of the page with a heading; `content` is markup.
std::string html_section(std::string_view id, std::string_view heading, std::string_view content);

}  // namespace flywheel

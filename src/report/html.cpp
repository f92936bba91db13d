#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>

namespace flywheel {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --mark: #ffb00030; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 84rem; color: #1c1e21; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #e4e6eb; background: #16181c; } }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
nav { display: flex; flex-wrap: wrap; gap: 0 1rem; } a { color: #0a84c8; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
.charts svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td:not(:first-child) { overflow-wrap: anywhere; min-width: 6rem; }
tr.differs { background: var(--mark); }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.35; }
blockquote { margin: .5rem 0; padding: .3rem .8rem; border-left: 3px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; }
)";

bool differs(const std::vector<std::string>& row) {
  return std::any_of(row.begin() + 1, row.end(),
                     [&](const std::string& cell) { return cell != row[1]; });
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string html_table(const std::vector<std::vector<std::string>>& rows, bool mark_differences) {
  std::string table = "<div class=\"wide\"><table>\n";
  for (const std::vector<std::string>& row : rows) {
    const bool header = &row == &rows.front();
    const bool mark = mark_differences && !header && row.size() > 2 && differs(row);
    table += mark ? "<tr class=\"differs\">" : "<tr>";
    for (const std::string& cell : row) {
      table += fmt::format("<{0}>{1}</{0}>", header ? "th" : "td", escaped(cell));
    }
    table += "</tr>\n";
  }
  return table + "</table></div>\n";
}

std::string html_section(std::string_view id, std::string_view heading, std::string_view content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, escaped(heading),
                     content);
}

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}</body>\n</html>\n",
      escaped(title), kStyle, body);
}

}  // namespace flywheel

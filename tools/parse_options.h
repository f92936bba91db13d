#pragma once

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/nearest_name.h"

namespace flywheel {

inline std::vector<std::string> option_names(const cxxopts::Options& options) {
  std::vector<std::string> names;
  for (const std::string& group : options.groups()) {
    for (const auto& option : options.group_help(group).options) {
      names.insert(names.end(), option.l.begin(), option.l.end());
    }
  }
  return names;
}

// The arguments "--name=value" and "--name value" as they were written; the value of one that has
// none is what follows it, if anything.
struct WrittenOption {
  std::string name, value;
};
inline std::vector<WrittenOption> written_options(int argc, char** argv) {
  std::vector<WrittenOption> written;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    const std::size_t equals = argument.find('=');
    const bool joined = equals != std::string::npos;
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    written.push_back(
        {argument.substr(2, equals - 2), joined ? argument.substr(equals + 1) : next});
  }
  return written;
}

// Whether cxxopts' message is about `text` or an element of the list that it is.
inline bool is_about(const std::string& message, const std::string& text) {
  const auto quotes = [&](const std::string& part) {
    return message.find(cxxopts::LQUOTE + part + cxxopts::RQUOTE) != std::string::npos;
  };
  if (quotes(text)) return true;
  std::istringstream list(text);
  for (std::string element; std::getline(list, element, ',');) {
    if (quotes(element)) return true;
  }
  return false;
}

// options.parse(), with errors Config that name the option, and the nearest one if it is unknown.
inline cxxopts::ParseResult parse_options(cxxopts::Options& options, int argc, char** argv) {
  try {
    return options.parse(argc, argv);
  } catch (const cxxopts::exceptions::no_such_option& error) {
    const std::vector<std::string> known = option_names(options);
    for (const auto& [name, value] : written_options(argc, argv)) {
      if (!is_about(error.what(), name)) continue;
      const std::string nearest = nearest_name(name, known);
      fail(ErrorKind::Config, "no option '--{}'{} (--help lists them)", name,
           nearest.empty() ? "" : fmt::format("; did you mean '--{}'?", nearest));
    }
    throw;
  } catch (const cxxopts::exceptions::incorrect_argument_type& error) {
    for (const auto& [name, value] : written_options(argc, argv)) {
      if (!is_about(error.what(), value)) continue;
      fail(ErrorKind::Config, "--{} does not take '{}' (--help tells what it takes)", name, value);
    }
    throw;
  }
}

}  // namespace flywheel

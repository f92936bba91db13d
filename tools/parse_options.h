#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cxxopts.hpp>
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
    if (!argument.starts_with("--")) continue;
    const std::size_t equals = argument.find('=');
    const bool joined = equals != std::string::npos;
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    written.push_back(
        {argument.substr(2, equals - 2), joined ? argument.substr(equals + 1) : next});
  }
  return written;
}

// options.parse(), with errors Config that name the option, and the nearest one if it is unknown.
inline cxxopts::ParseResult parse_options(cxxopts::Options& options, int argc, char** argv) {
  try {
    return options.parse(argc, argv);
  } catch (const cxxopts::exceptions::no_such_option&) {
    const std::vector<std::string> known = option_names(options);
    for (const auto& [name, value] : written_options(argc, argv)) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string nearest = nearest_name(name, known);
      fail(ErrorKind::Config, "no option '--{}'{} (--help lists them)", name,
           nearest.empty() ? "" : fmt::format("; did you mean '--{}'?", nearest));
    }
    throw;
  } catch (const cxxopts::exceptions::incorrect_argument_type& error) {
    const std::string message = error.what();
    for (const auto& [name, value] : written_options(argc, argv)) {
      if (value.empty() || message.find(value) == std::string::npos) continue;
      fail(ErrorKind::Config, "--{} does not take '{}' (--help tells what it takes)", name, value);
    }
    throw;
  }
}

}  // namespace flywheel

#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace flywheel::test {

// "kind: message" of the Error that `action` throws; "nothing was thrown" if none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  }
  return "nothing was thrown";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace flywheel::test

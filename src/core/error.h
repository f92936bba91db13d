#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace flywheel {

// Who is at fault, and so which exit code a program ends with.
enum class ErrorKind {
  Config,    // a flag or a config value of the user's
  Data,      // a file of the user's: shard, tokenizer, checkpoint, text
  Shape,     // a tensor of the wrong rank, shape or dtype handed to an op
  Io,        // the operating system refused to read or write
  Device,    // a device is missing or failed
  Comm,      // another rank failed
  Internal,  // a fault of ours
};

std::string_view name_of(ErrorKind kind);

// Exit codes: 2 Config, 3 Data, 4 Io, 5 Device, 6 Comm, 70 Shape and Internal.
int exit_code(ErrorKind kind);

struct SourceLocation {
  const char* file;
  int line;
};

// Everything that we throw. what() is one line for the user: what was expected, what came, what to
// do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, SourceLocation location)
      : std::runtime_error(message), kind_(kind), location_(location) {}
  ErrorKind kind() const { return kind_; }
  SourceLocation location() const { return location_; }

 private:
  ErrorKind kind_;
  SourceLocation location_;
};

// A format string that remembers where it was written.
template <class... Args>
struct LocatedFormat {
  fmt::format_string<Args...> format;
  SourceLocation location;

  template <class String>
  consteval LocatedFormat(const String& text,  // NOLINT(google-explicit-constructor)
                          const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : format(text), location{file, line} {}
};

// Throws Error: fail(ErrorKind::Config, "{}: unknown key '{}'", path, key).
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, LocatedFormat<std::type_identity_t<Args>...> message,
                       Args&&... args) {
  throw Error(kind, fmt::format(message.format, std::forward<Args>(args)...), message.location);
}

// Throws Error unless `condition` holds.
template <class... Args>
void require(bool condition, ErrorKind kind, LocatedFormat<std::type_identity_t<Args>...> message,
             Args&&... args) {
  if (!condition) [[unlikely]] {
    throw Error(kind, fmt::format(message.format, std::forward<Args>(args)...), message.location);
  }
}

}  // namespace flywheel

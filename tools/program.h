#pragma once

#include <cstdio>
#include <cxxopts.hpp>
#include <exception>
#include <new>

#include "core/error.h"

namespace flywheel {

// The frame of every main: runs `run(argc, argv)` and turns what it throws, or output that was
// lost, into one line on standard error and an exit code.
template <class Run>
int run_program(const char* name, int argc, char** argv, Run run) {
  const auto report = [&](const char* message, ErrorKind kind) {
    std::fprintf(stderr, "%s: error: %s\n", name, message);
    return exit_code(kind);
  };
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return report("standard output cannot be written: is the disk full?", ErrorKind::Io);
  } catch (const Error& error) {
    return report(error.what(), error.kind());
  } catch (const cxxopts::exceptions::exception& error) {
    return report(error.what(), ErrorKind::Config);
  } catch (const std::bad_alloc&) {
    return report("out of memory", ErrorKind::Io);
  } catch (const std::exception& error) {
    return report(error.what(), ErrorKind::Internal);
  }
}

}  // namespace flywheel

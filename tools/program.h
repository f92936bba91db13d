#pragma once

#include <cstdio>
#include <cxxopts.hpp>
#include <exception>
#include <new>

#include "core/error.h"

namespace flywheel {

// The frame of every main: runs `run(argc, argv)` and turns what it throws into one line on
// standard error and an exit code.
template <class Run>
int run_program(const char* name, int argc, char** argv, Run run) {
  const auto report = [&](const char* message, ErrorKind kind) {
    std::fprintf(stderr, "%s: error: %s\n", name, message);
    return exit_code(kind);
  };
  try {
    return run(argc, argv);
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

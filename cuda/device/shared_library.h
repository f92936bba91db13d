#pragma once

// `out` becomes the function of a SharedLibrary, or the emulator's of that name, which is linked.
#ifdef FLYWHEEL_SIMT
#define FLYWHEEL_FIND(library, function, out) (out) = function
#else
#define FLYWHEEL_FIND(library, function, out) (library).find(#function, out)

#include <dlfcn.h>

#include "core/error.h"

namespace flywheel::cuda {

// A library that is loaded when it is needed, so that programs start without it.
class SharedLibrary {
 public:
  // Error Device, with `purpose` ("several GPUs need NCCL"), if the library is not there. `oldest`
  // is the version that has all functions which are asked for.
  SharedLibrary(const char* name, const char* purpose, const char* oldest)
      : name_(name), oldest_(oldest), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    require(handle_ != nullptr, ErrorKind::Device,
            "{}, which cannot be loaded: {}; install it, or set LD_LIBRARY_PATH to its folder",
            purpose, handle_ == nullptr ? dlerror() : "");
  }

  // Error Device if the library has no such function.
  template <class Function>
  void find(const char* function, Function& out) const {
    out = reinterpret_cast<Function>(dlsym(handle_, function));
    require(out != nullptr, ErrorKind::Device, "{} has no {}: it is older than {}", name_, function,
            oldest_);
  }

 private:
  const char* name_;
  const char* oldest_;
  void* handle_;  // never closed: its functions are used to the end
};

}  // namespace flywheel::cuda

#endif

// The cuBLASLt that is installed; it needs no GPU to be loaded.
#include "cuda/device/blas.h"

#include <cstdio>
#include <string>

#include "core/error.h"
#include "support/catch.h"

using namespace flywheel;

TEST_CASE("cuBLASLt has the functions that products on a GPU need", "[cuda]") {
  try {
    CHECK(cuda::blas().get_version() / 10000 == CUBLAS_VER_MAJOR);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Device ||
        std::string(error.what()).find("cannot be loaded") == std::string::npos) {
      throw;
    }
    std::printf("skipped: %s\n", error.what());
  }
}

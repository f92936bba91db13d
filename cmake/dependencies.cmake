# Libraries come from the distribution (tools/setup.sh installs them); nothing is downloaded here.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(igraph REQUIRED IMPORTED_TARGET igraph)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_path(CXXOPTS_INCLUDE_DIR cxxopts.hpp REQUIRED)

# Tests accept Catch2 2 (Debian 12) and 3 (Ubuntu 24.04); tests/support/catch.h hides the difference.
find_package(Catch2 3 QUIET)
if(NOT Catch2_FOUND)
  find_path(CATCH2_INCLUDE_DIR catch2/catch.hpp REQUIRED)
endif()

# Without MPI a job has one rank.
pkg_check_modules(mpi QUIET IMPORTED_TARGET mpi-c)

# OpenBLAS is only the yardstick of the benchmarks.
pkg_check_modules(openblas QUIET IMPORTED_TARGET openblas)

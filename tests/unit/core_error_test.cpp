#include "core/error.h"

#include "support/catch.h"

using namespace flywheel;

TEST_CASE("an error carries its kind, its message and the place it was thrown at", "[core]") {
  try {
    fail(ErrorKind::Data, "{}: {} tokens", "a.bin", 3);
  } catch (const Error& error) {
    REQUIRE(std::string(error.what()) == "a.bin: 3 tokens");
    REQUIRE(error.kind() == ErrorKind::Data);
    REQUIRE(std::string(error.location().file).find("core_error_test.cpp") != std::string::npos);
    REQUIRE(error.location().line == 9);
    return;
  }
  FAIL("nothing was thrown");
}

TEST_CASE("require throws only when the condition fails", "[core]") {
  REQUIRE_NOTHROW(require(true, ErrorKind::Config, "never"));
  REQUIRE_THROWS_AS(require(false, ErrorKind::Config, "now {}", 1), Error);
}

TEST_CASE("user faults and our faults have different exit codes", "[core]") {
  REQUIRE(exit_code(ErrorKind::Config) == 2);
  REQUIRE(exit_code(ErrorKind::Data) == 3);
  REQUIRE(exit_code(ErrorKind::Io) == 4);
  REQUIRE(exit_code(ErrorKind::Internal) == 70);
}

// The long random sweep: hundreds of larger cases.
#include "parity/attention_run.h"
#include "support/catch.h"

TEST_CASE("attention agrees with the brute-force mask in many larger cases", "[attention]") {
  for (std::uint64_t seed = 1000; seed < 1400; ++seed) {
    flywheel::test::check_random_attention_case(seed, 4e7);
  }
}

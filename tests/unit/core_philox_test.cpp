#include "core/philox.h"

#include <cmath>

#include "support/catch.h"

using namespace flywheel;

TEST_CASE("Philox4x32-10 gives the published known answers", "[core]") {
  // The known-answer vectors of the Random123 distribution.
  REQUIRE(philox4x32({0, 0, 0, 0}, {0, 0}) ==
          std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  REQUIRE(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
          std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  REQUIRE(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal numbers have mean 0 and variance 1", "[core]") {
  const RandomSequence random(7, RandomStream::kInitialization);
  double sum = 0;
  double squares = 0;
  const int count = 20000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  REQUIRE(std::abs(sum / count) < 5 / std::sqrt(count));
  REQUIRE(std::abs(squares / count - 1) < 5 * std::sqrt(2.0 / count));
}

TEST_CASE("streams, keys and indices give different words", "[core]") {
  const RandomSequence a(1, RandomStream::kDataOrder, 2, 3);
  REQUIRE(a.word(0) != a.word(1));
  REQUIRE(a.word(0) != RandomSequence(2, RandomStream::kDataOrder, 2, 3).word(0));
  REQUIRE(a.word(0) != RandomSequence(1, RandomStream::kCorpus, 2, 3).word(0));
  REQUIRE(a.word(0) != RandomSequence(1, RandomStream::kDataOrder, 3, 3).word(0));
  REQUIRE(a.word(0) != RandomSequence(1, RandomStream::kDataOrder, 2, 4).word(0));
  REQUIRE(a.word(0) == RandomSequence(1, RandomStream::kDataOrder, 2, 3, 0).word(0));
  REQUIRE(a.word(0) != RandomSequence(1, RandomStream::kDataOrder, 2, 3, 1).word(0));
  for (std::uint64_t i = 0; i < 100; ++i) REQUIRE(a.below(i, 10) < 10);
}

#include "core/thread_pool.h"

#include <numeric>
#include <vector>

#include "core/error.h"
#include "support/catch.h"

using namespace flywheel;

TEST_CASE("every index is visited once at any number of threads", "[core]") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 5, 64, 1000}) {
      for (const std::int64_t grain : {1, 7, 16}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        pool.for_range(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          REQUIRE(thread < threads);
          REQUIRE(begin % grain == 0);
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        pool.for_each(count, [&](std::int64_t i, int) { ++visits[static_cast<std::size_t>(i)]; });
        for (const int visit : visits) REQUIRE(visit == 2);
      }
    }
  }
}

TEST_CASE("an exception in a task reaches the caller and the pool lives on", "[core]") {
  ThreadPool pool(3);
  REQUIRE_THROWS_AS(pool.run([](int thread) {
    if (thread == 2) fail(ErrorKind::Internal, "from a worker");
  }),
                    Error);
  std::vector<int> ran(3, 0);
  pool.run([&](int thread) { ran[static_cast<std::size_t>(thread)] = 1; });
  REQUIRE(std::accumulate(ran.begin(), ran.end(), 0) == 3);
}

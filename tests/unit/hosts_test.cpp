// Processes, here threads, that a launcher's variables bring together over TCP.
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "dist/launch.h"
#include "dist/tcp_hosts.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/forked_ranks.h"
#include "support/text.h"

namespace flywheel {
namespace {

using std::chrono::milliseconds;
using test::require_contains;

// Runs body(hosts) as each rank, and gives back what it threw.
std::vector<std::string> run(std::int64_t ranks, milliseconds timeout,
                             const std::function<void(HostCommunicator&)>& body) {
  const int port = test::free_port();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = test::error_of([&] {
        const auto hosts = join_hosts({.by = Launch::By::Environment,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .address = "127.0.0.1",
                                       .port = port},
                                      timeout);
        body(*hosts);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

struct Variable {
  const char* name;
  const char* value;
};
using List = std::vector<Variable>;

// Sets variables of the environment, and takes them away again.
class Variables {
 public:
  explicit Variables(List all) : all_(std::move(all)) {
    for (const auto& [name, value] : all_) setenv(name, value, 1);
  }
  ~Variables() {
    for (const auto& [name, value] : all_) unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  List all_;
};

std::string launch_error(List variables) {
  const Variables scope(std::move(variables));
  return test::error_of([] { find_launch(); });
}

constexpr milliseconds kLong{20'000};

TEST_CASE("hosts add up their values in the order of the ranks", "[ranks]") {
  const auto errors = run(4, kLong, [](HostCommunicator& hosts) {
    const std::array<double, 4> terms{1e16, 1.0, -1e16, 3.0};
    for (int round = 0; round < 3; ++round) {
      std::array<double, 2> values{terms[static_cast<std::size_t>(hosts.rank())], 1.0};
      hosts.sum(values);
      require(values[0] == ((1e16 + 1.0) - 1e16) + 3.0 && values[1] == 4.0, ErrorKind::Internal,
              "wrong sums {} {}", values[0], values[1]);
    }
  });
  for (const std::string& error : errors) CHECK(error == "nothing was thrown");
}

TEST_CASE("hosts that do not come are named", "[ranks]") {
  const auto errors = run(3, milliseconds{1000}, [](HostCommunicator& hosts) {
    if (hosts.rank() == 2) return std::this_thread::sleep_for(milliseconds{5000});
    double value = 1;
    hosts.sum(std::span(&value, 1));
  });
  for (const std::size_t rank : {0U, 1U}) {
    require_contains(errors[rank], fmt::format("rank {}: sum", rank));
    require_contains(errors[rank], "for rank 2; resume from the last checkpoint");
  }
}

TEST_CASE("hosts that are gone are named at once", "[ranks]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run(3, kLong, [](HostCommunicator& hosts) {
    double value = 1;
    if (hosts.rank() != 1) hosts.sum(std::span(&value, 1));
  });
  for (const std::size_t rank : {0U, 2U}) require_contains(errors[rank], "for rank 1;");
  CHECK(std::chrono::steady_clock::now() - begin < kLong / 2);
}

TEST_CASE("hosts that add up different numbers of values say so", "[ranks]") {
  const auto errors = run(2, kLong, [](HostCommunicator& hosts) {
    std::vector<double> values(static_cast<std::size_t>(hosts.rank()) + 1);
    hosts.sum(values);
  });
  require_contains(errors[0], "rank 0 sums 1 values, but rank 1 2");
}

TEST_CASE("a start waits for all hosts, and says whom it misses", "[ranks]") {
  const Launch alone{.by = Launch::By::Environment,
                     .rank = 0,
                     .ranks = 3,
                     .address = "127.0.0.1",
                     .port = test::free_port()};
  require_contains(test::error_of([&] { join_hosts(alone, milliseconds{100}); }),
                   "rank 0: the start has waited 0 s for rank 1 2");
  Launch early = alone;
  early.rank = 1;
  require_contains(test::error_of([&] { join_hosts(early, milliseconds{100}); }),
                   "rank 0 does not listen at 127.0.0.1");
}

TEST_CASE("launchers' variables say which rank a process is", "[ranks]") {
  CHECK(find_launch().by == Launch::By::Alone);
  {
    const Variables torchrun(List{{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"MASTER_ADDR", "node0"},
                                  {"MASTER_PORT", "29500"}});
    const Launch launch = find_launch();
    CHECK(launch.by == Launch::By::Environment);
    CHECK(launch.rank == 5);
    CHECK(launch.ranks == 8);
    CHECK(launch.local_rank == 1);
    CHECK(launch.address == "node0");
    CHECK(launch.port == 29500);
    const Variables agent(List{{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    CHECK(find_launch().port == 29501);
  }
  const Variables mpi(List{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  CHECK(find_launch().by == Launch::By::Mpi);
  CHECK(find_launch().local_rank == 1);
}

TEST_CASE("launchers' variables that do not fit are refused", "[ranks]") {
  require_contains(launch_error(List{{"WORLD_SIZE", "two"}}), "WORLD_SIZE=two: expected a number");
  require_contains(launch_error(List{{"WORLD_SIZE", "2"}}), "but not MASTER_ADDR");
  require_contains(launch_error(List{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), "but not RANK");
  require_contains(launch_error(List{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"RANK", "2"}}),
                   "RANK=2: expected a number from 0 to 1");
}

}  // namespace
}  // namespace flywheel

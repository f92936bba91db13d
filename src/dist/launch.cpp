#include "dist/launch.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/error.h"

namespace flywheel {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::int64_t number(const char* name, const std::string& text, std::int64_t least,
                    std::int64_t most) {
  std::int64_t value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  require(fault == std::errc() && stop == end && value >= least && value <= most, ErrorKind::Config,
          "{}={}: expected a number from {} to {}", name, text, least, most);
  return value;
}

std::int64_t needed(const char* name, std::int64_t least, std::int64_t most) {
  const auto text = variable(name);
  require(text.has_value(), ErrorKind::Config,
          "WORLD_SIZE is set, but not {}; set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
          "MASTER_PORT in every process, as torchrun does",
          name);
  return number(name, *text, least, most);
}

// The launcher itself may listen at the port, and says so.
std::int64_t own_port(std::int64_t port) {
  const bool taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (!taken) return port;
  return port < 65535 ? port + 1 : port - 1;
}

constexpr std::int64_t kMostRanks = 1 << 16;

Launch by_environment(std::int64_t ranks) {
  const auto address = variable("MASTER_ADDR");
  require(address.has_value(), ErrorKind::Config,
          "WORLD_SIZE is set, but not MASTER_ADDR; set it to the machine of rank 0");
  const std::int64_t rank = needed("RANK", 0, ranks - 1);
  return {.by = Launch::By::Environment,
          .rank = rank,
          .ranks = ranks,
          .local_rank = variable("LOCAL_RANK") ? needed("LOCAL_RANK", 0, ranks - 1) : rank,
          .address = *address,
          .port = own_port(needed("MASTER_PORT", 1, 65535))};
}

bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto size = variable(name);
    if (size && *size != "1") return true;
  }
  return false;
}

Launch by_mpi() {
  Launch launch{.by = Launch::By::Mpi, .address = {}};
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const auto local = variable(name);
    if (!local) continue;
    launch.local_rank = number(name, *local, 0, kMostRanks);
    break;
  }
  return launch;
}

}  // namespace

Launch find_launch() {
  if (const auto size = variable("WORLD_SIZE")) {
    const std::int64_t ranks = number("WORLD_SIZE", *size, 1, kMostRanks);
    if (ranks > 1) return by_environment(ranks);
  }
  return started_by_mpi() ? by_mpi() : Launch{};
}

}  // namespace flywheel

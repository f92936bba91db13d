#pragma once

#include <cstdint>
#include <string>

namespace flywheel {

// How this process was started as one of several, by the variables that launchers set.
struct Launch {
  enum class By : std::uint8_t {
    Alone,
    Mpi,          // mpirun (Open MPI, MPICH), Slurm's PMI
    Environment,  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun sets them
  };
  By by = By::Alone;
  std::int64_t rank = 0;        // with Environment; MPI tells its own
  std::int64_t ranks = 1;       // likewise
  std::int64_t local_rank = 0;  // among those of this machine
  std::string address;          // with Environment: where rank 0 listens
  std::int64_t port = 0;
};

// Error Config, with the name of the variable, if what is set does not fit together.
Launch find_launch();

}  // namespace flywheel

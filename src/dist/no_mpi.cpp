#include "core/error.h"
#include "dist/mpi_communicator.h"

namespace flywheel {

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds /*timeout*/) {
  fail(ErrorKind::Config,
       "several ranks, but this build is without MPI; install libopenmpi-dev and build again");
}

}  // namespace flywheel

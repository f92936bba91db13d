#include <cstdlib>
#include <string>

#include "dist/mpi_communicator.h"

namespace flywheel {

bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::string(value) != "1") return true;
  }
  return false;
}

}  // namespace flywheel

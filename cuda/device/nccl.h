#pragma once

// NCCL, or the emulator's (docs/cuda.md).
#ifdef FLYWHEEL_SIMT
#include "simt/emulator/nccl.h"
#else
#include <nccl.h>
#endif

namespace flywheel::cuda {

// NCCL's functions. The library is loaded when they are first asked for, so that a run on one GPU
// needs none.
struct Nccl {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};

// Error Device if the library is not there.
const Nccl& nccl();

}  // namespace flywheel::cuda

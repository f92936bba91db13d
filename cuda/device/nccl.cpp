#include "cuda/device/nccl.h"

#include "cuda/device/shared_library.h"

namespace flywheel::cuda {
namespace {

Nccl load() {
#ifndef FLYWHEEL_SIMT
  const SharedLibrary library("libnccl.so.2", "several GPUs need NCCL", "2.14");
#endif
  Nccl all{};
  FLYWHEEL_FIND(library, ncclGetUniqueId, all.get_unique_id);
  FLYWHEEL_FIND(library, ncclCommInitRankConfig, all.comm_init_rank_config);
  FLYWHEEL_FIND(library, ncclCommGetAsyncError, all.comm_get_async_error);
  FLYWHEEL_FIND(library, ncclCommFinalize, all.comm_finalize);
  FLYWHEEL_FIND(library, ncclCommDestroy, all.comm_destroy);
  FLYWHEEL_FIND(library, ncclCommAbort, all.comm_abort);
  FLYWHEEL_FIND(library, ncclGetErrorString, all.get_error_string);
  FLYWHEEL_FIND(library, ncclGetLastError, all.get_last_error);
  FLYWHEEL_FIND(library, ncclReduceScatter, all.reduce_scatter);
  FLYWHEEL_FIND(library, ncclAllGather, all.all_gather);
  FLYWHEEL_FIND(library, ncclReduce, all.reduce);
  FLYWHEEL_FIND(library, ncclBroadcast, all.broadcast);
  FLYWHEEL_FIND(library, ncclGroupStart, all.group_start);
  FLYWHEEL_FIND(library, ncclGroupEnd, all.group_end);
  return all;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl all = load();
  return all;
}

}  // namespace flywheel::cuda

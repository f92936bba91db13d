#include "cuda/device/nccl.h"

#ifndef FLYWHEEL_SIMT
#include "cuda/device/shared_library.h"
#endif

namespace flywheel::cuda {
namespace {

#ifdef FLYWHEEL_SIMT

Nccl load() {
  return {ncclGetUniqueId,
          ncclCommInitRankConfig,
          ncclCommGetAsyncError,
          ncclCommFinalize,
          ncclCommDestroy,
          ncclCommAbort,
          ncclGetErrorString,
          ncclGetLastError,
          ncclReduceScatter,
          ncclAllGather,
          ncclReduce,
          ncclBroadcast,
          ncclGroupStart,
          ncclGroupEnd};
}

#else

Nccl load() {
  const SharedLibrary library("libnccl.so.2", "several GPUs need NCCL", "2.14");
  Nccl all{};
  library.find("ncclGetUniqueId", all.get_unique_id);
  library.find("ncclCommInitRankConfig", all.comm_init_rank_config);
  library.find("ncclCommGetAsyncError", all.comm_get_async_error);
  library.find("ncclCommFinalize", all.comm_finalize);
  library.find("ncclCommDestroy", all.comm_destroy);
  library.find("ncclCommAbort", all.comm_abort);
  library.find("ncclGetErrorString", all.get_error_string);
  library.find("ncclGetLastError", all.get_last_error);
  library.find("ncclReduceScatter", all.reduce_scatter);
  library.find("ncclAllGather", all.all_gather);
  library.find("ncclReduce", all.reduce);
  library.find("ncclBroadcast", all.broadcast);
  library.find("ncclGroupStart", all.group_start);
  library.find("ncclGroupEnd", all.group_end);
  return all;
}

#endif

}  // namespace

const Nccl& nccl() {
  static const Nccl all = load();
  return all;
}

}  // namespace flywheel::cuda

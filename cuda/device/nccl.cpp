#include "cuda/device/nccl.h"

#ifndef FLYWHEEL_SIMT
#include <dlfcn.h>

#include "core/error.h"
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

void* open_library() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, ErrorKind::Device,
          "several GPUs need NCCL, which cannot be loaded: {}; install it, or set LD_LIBRARY_PATH "
          "to its folder",
          library == nullptr ? dlerror() : "");
  return library;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  require(function != nullptr, ErrorKind::Device, "libnccl.so.2 has no {}: it is older than 2.14",
          name);
}

Nccl load() {
  void* library = open_library();
  Nccl all{};
  find(library, "ncclGetUniqueId", all.get_unique_id);
  find(library, "ncclCommInitRankConfig", all.comm_init_rank_config);
  find(library, "ncclCommGetAsyncError", all.comm_get_async_error);
  find(library, "ncclCommFinalize", all.comm_finalize);
  find(library, "ncclCommDestroy", all.comm_destroy);
  find(library, "ncclCommAbort", all.comm_abort);
  find(library, "ncclGetErrorString", all.get_error_string);
  find(library, "ncclGetLastError", all.get_last_error);
  find(library, "ncclReduceScatter", all.reduce_scatter);
  find(library, "ncclAllGather", all.all_gather);
  find(library, "ncclReduce", all.reduce);
  find(library, "ncclBroadcast", all.broadcast);
  find(library, "ncclGroupStart", all.group_start);
  find(library, "ncclGroupEnd", all.group_end);
  return all;
}

#endif

}  // namespace

const Nccl& nccl() {
  static const Nccl all = load();
  return all;
}

}  // namespace flywheel::cuda

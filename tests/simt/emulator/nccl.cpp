#include "simt/emulator/nccl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "simt/emulator/heap.h"
#include "simt/emulator/launch.h"
#include "simt/emulator/streams.h"
#include "simt/emulator/types.h"

namespace simt {
namespace {

using Clock = std::chrono::steady_clock;

// What all ranks must agree on.
struct Call {
  std::int32_t kind = 0;  // index of kNames
  std::int32_t type = 0;
  std::int64_t count = 0;
  std::int32_t root = 0;

  bool operator==(const Call&) const = default;
};
constexpr const char* kNames[] = {"ncclReduceScatter", "ncclAllGather", "ncclReduce",
                                  "ncclBroadcast"};
enum { kReduceScatter, kAllGather, kReduce, kBroadcast };

std::string text_of(const Call& call) {
  return fmt::format("{} of {} elements of type {} (root {})", kNames[call.kind], call.count,
                     call.type, call.root);
}

std::size_t size_of(const Call& call) {
  return call.type == ncclFloat32 ? sizeof(float) : sizeof(std::uint16_t);
}

}  // namespace

// Messages are files of a folder that all ranks know: SEQUENCE.RANK holds what a rank brings to a
// collective. A rank deletes its file when it is through with the next one, as then all are.
struct NcclRank {
  std::filesystem::path folder;
  int rank = 0;
  int ranks = 1;
  bool blocking = true;
  bool aborted = false;
  std::uint64_t queued = 0;
  ncclResult_t state = ncclSuccess;
  std::string error;

  std::filesystem::path file(const std::string& name, int of) const {
    return folder / fmt::format("{}.{}", name, of);
  }
  void publish(const std::string& name, const void* head, std::size_t head_bytes,
               const void* body = nullptr, std::size_t body_bytes = 0) const {
    const std::filesystem::path unfinished = file("unfinished", rank);
    std::ofstream out(unfinished, std::ios::binary);
    out.write(static_cast<const char*>(head), static_cast<std::streamsize>(head_bytes));
    out.write(static_cast<const char*>(body), static_cast<std::streamsize>(body_bytes));
    out.close();
    std::filesystem::rename(unfinished, file(name, rank));
  }
  int first_missing(const std::string& name) const {
    for (int r = 0; r < ranks; ++r) {
      if (!std::filesystem::exists(file(name, r))) return r;
    }
    return -1;
  }
  void fail(ncclResult_t result, std::string message) {
    if (state != ncclSuccess) return;
    state = result;
    error = std::move(message);
  }
};

namespace {

// One rank's way through a collective.
class Collective {
 public:
  Collective(NcclRank& comm, const Call& call, const void* from, void* to)
      : comm_(comm),
        call_(call),
        from_(static_cast<const char*>(from)),
        to_(static_cast<char*>(to)),
        sequence_(comm.queued++) {}

  // Comes to the collective when it is first asked. One that failed stays until it is aborted.
  bool is_ready() {
    if (comm_.aborted || !brought_.empty()) return true;
    if (comm_.state != ncclSuccess) return false;
    if (!came_) come();
    const int missing = comm_.first_missing(std::to_string(sequence_));
    if (missing < 0) return read_all();
    if (Clock::now() > deadline_) {
      comm_.fail(ncclRemoteError, fmt::format("collective {}, {}: rank {} has not come", sequence_,
                                              text_of(call_), missing));
    }
    return false;
  }

  void run() {
    if (comm_.aborted) return;
    combine();
    if (sequence_ > 0) {
      std::filesystem::remove(comm_.file(std::to_string(sequence_ - 1), comm_.rank));
    }
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(call_.count) * size_of(call_); }
  std::size_t rank() const { return static_cast<std::size_t>(comm_.rank); }

  void come() {
    came_ = true;
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(config.patience_seconds));
    std::size_t size = bytes();
    if (call_.kind == kReduceScatter) size *= static_cast<std::size_t>(comm_.ranks);
    if (call_.kind == kBroadcast && comm_.rank != call_.root) size = 0;
    const HeapAccess access;
    comm_.publish(std::to_string(sequence_), &call_, sizeof call_, from_, size);
  }

  // False if a rank brings something else.
  bool read_all() {
    std::vector<std::vector<char>> brought;
    for (int r = 0; r < comm_.ranks; ++r) {
      std::ifstream in(comm_.file(std::to_string(sequence_), r), std::ios::binary);
      Call theirs;
      in.read(reinterpret_cast<char*>(&theirs), sizeof theirs);
      if (!(theirs == call_)) {
        comm_.fail(ncclInvalidUsage,
                   fmt::format("collective {}: rank {} calls {}, rank {} {}", sequence_, comm_.rank,
                               text_of(call_), r, text_of(theirs)));
        return false;
      }
      brought.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    brought_ = std::move(brought);
    return true;
  }

  void combine() {
    switch (call_.kind) {
      case kReduceScatter:
        return add(rank() * bytes());
      case kReduce:
        if (comm_.rank == call_.root) add(0);
        return;
      case kAllGather:
        for (std::size_t r = 0; r < brought_.size(); ++r) write(brought_[r].data(), r * bytes());
        return;
      default:
        return write(brought_[static_cast<std::size_t>(call_.root)].data(), 0);
    }
  }

  // In the order of the ranks.
  void add(std::size_t begin) {
    std::vector<float> sums(static_cast<std::size_t>(call_.count), 0.0F);
    for (const std::vector<char>& theirs : brought_) {
      std::vector<float> values(sums.size());
      std::memcpy(values.data(), theirs.data() + begin, bytes());
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
    write(sums.data(), 0);
  }

  void write(const void* data, std::size_t at) {
    std::memcpy(to_ + at, data, bytes());
    if (observer) observer->filled(to_ + at, bytes());
  }

  NcclRank& comm_;
  Call call_;
  const char* from_;
  char* to_;
  std::uint64_t sequence_;
  bool came_ = false;
  std::vector<std::vector<char>> brought_;  // by each rank
  Clock::time_point deadline_;
};

ncclResult_t queue(NcclRank* comm, const Call& call, const void* from, void* to,
                   cudaStream_t stream) {
  const DeviceLock lock;
  if (comm->state != ncclSuccess) return comm->state;
  if (!is_device_address(from) || !is_device_address(to)) return ncclInvalidUsage;
  const auto collective = std::make_shared<Collective>(*comm, call, from, to);
  enqueue_when(
      stream, [=] { return collective->is_ready(); }, [=] { collective->run(); });
  return ncclSuccess;
}

// A group ends, as the real one may, before its calls are through.
bool group_is_open = false;

}  // namespace
}  // namespace simt

using namespace simt;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const auto pattern = std::filesystem::temp_directory_path() / "emulated_nccl_XXXXXX";
  std::strncpy(id->internal, pattern.c_str(), NCCL_UNIQUE_ID_BYTES - 1);
  return mkdtemp(id->internal) ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto made = std::make_unique<NcclRank>();
  made->folder = id.internal;
  made->rank = rank;
  made->ranks = ranks;
  made->blocking = config->blocking != 0;
  if (!std::filesystem::is_directory(made->folder)) return ncclInvalidUsage;
  made->publish("here", nullptr, 0);
  *comm = made.release();
  if ((*comm)->blocking) return ncclInvalidUsage;  // nothing here waits inside a call
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const DeviceLock lock;
  *result = comm->state;
  if (comm->state == ncclSuccess && comm->first_missing("here") >= 0) *result = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  drain_streams();
  return comm->state;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->publish("left", nullptr, 0);
  std::error_code ignored;
  if (comm->first_missing("left") < 0) std::filesystem::remove_all(comm->folder, ignored);
  delete comm;
  return ncclSuccess;
}

// What is queued becomes nothing; it still knows of the communicator.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const DeviceLock lock;
    comm->aborted = true;
  }
  drain_streams();
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      break;
  }
  return "NCCL operation in progress";
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm ? comm->error.c_str() : "";
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count_of_rank,
                               ncclDataType_t type, ncclRedOp_t /*op*/, ncclComm_t comm,
                               cudaStream_t stream) {
  return queue(comm, {kReduceScatter, type, static_cast<std::int64_t>(count_of_rank), 0}, from, to,
               stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count_of_rank,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return queue(comm, {kAllGather, type, static_cast<std::int64_t>(count_of_rank), 0}, from, to,
               stream);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t /*op*/, int root, ncclComm_t comm, cudaStream_t stream) {
  return queue(comm, {kReduce, type, static_cast<std::int64_t>(count), root}, from, to, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return queue(comm, {kBroadcast, type, static_cast<std::int64_t>(count), root}, from, to, stream);
}

ncclResult_t ncclGroupStart() {
  if (group_is_open) return ncclInvalidUsage;
  group_is_open = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!group_is_open) return ncclInvalidUsage;
  group_is_open = false;
  return ncclInProgress;
}

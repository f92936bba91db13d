#include "cuda/nccl_communicator.h"

#include <array>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "core/error.h"
#include "cuda/backend_stream.h"
#include "cuda/device/check.h"
#include "cuda/device/nccl.h"
#include "cuda/memory.h"

namespace flywheel {
namespace {

using Clock = std::chrono::steady_clock;
using cuda::check;
using cuda::nccl;

// A collective on its way. The clock runs from when this rank has come to it.
struct Collective {
  const char* name = "";
  cuda::Event begin;  // on the backend's stream
  cuda::Event end;    // on the communicator's
  Clock::time_point deadline = Clock::time_point::max();
};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return ncclFloat32;
    case DType::BF16:
      return ncclBfloat16;
    default:
      fail(ErrorKind::Internal, "tensors of {} are not sent", name_of(dtype));
  }
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Backend& backend, std::unique_ptr<HostCommunicator> hosts,
                   std::chrono::milliseconds timeout)
      : hosts_(std::move(hosts)),
        backend_(backend),
        timeout_(timeout),
        compute_(cuda::stream_of(backend)) {
    connect();
    for (cuda::Stream* stream : {&compute_, &stream_}) stream->set_watch([this] { watch(); });
  }

  ~NcclCommunicator() override {
    try {
      std::uncaught_exceptions() > 0 ? abort() : close();
    } catch (const Error&) {  // the job ends anyway
    }
    compute_.set_watch({});
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::int64_t rank() const override { return hosts_->rank(); }
  std::int64_t ranks() const override { return hosts_->ranks(); }
  bool alarm() override { return hosts_->alarm(); }

  // By the hosts: the GPU need not be waited for.
  void sum(std::span<double> values) override {
    try {
      hosts_->sum(values);
    } catch (const Error&) {
      abort();  // else nobody could free the memory that a collective holds
      throw;
    }
  }

  void reduce_scatter(const TensorView& x) override {
    require(x.dtype == DType::F32, ErrorKind::Internal, "only float32 is summed");
    run("reduce_scatter", x, [&](const Division& d) {
      if (d.equal > 0) {
        settle("ncclReduceScatter", nccl().reduce_scatter(x.data, d.own, d.equal, ncclFloat32,
                                                          ncclSum, comm_, stream()));
      }
      if (d.rest > 0) {
        settle("ncclReduce", nccl().reduce(d.tail, d.tail, d.rest, ncclFloat32, ncclSum, d.last,
                                           comm_, stream()));
      }
    });
  }

  void all_gather(const TensorView& x) override {
    const ncclDataType_t type = type_of(x.dtype);
    run("all_gather", x, [&](const Division& d) {
      if (d.equal > 0) {
        settle("ncclAllGather", nccl().all_gather(d.own, x.data, d.equal, type, comm_, stream()));
      }
      if (d.rest > 0) {
        settle("ncclBroadcast",
               nccl().broadcast(d.tail, d.tail, d.rest, type, d.last, comm_, stream()));
      }
    });
  }

  void join() override {
    if (pending_.empty()) return;
    check(cudaStreamWaitEvent(compute_.get(), pending_.back().end.get(), 0), "cudaStreamWaitEvent");
  }

 private:
  // Parts as part_of makes them: equal ones, and a tail that is the last rank's.
  struct Division {
    std::size_t equal = 0;
    std::size_t rest = 0;
    std::byte* own = nullptr;
    std::byte* tail = nullptr;
    int last = 0;
  };
  Division divide(const TensorView& x) const {
    const std::int64_t equal = part_of(x.elements(), 0, ranks()).elements();
    const std::int64_t shared = equal * ranks();
    return {.equal = static_cast<std::size_t>(equal),
            .rest = static_cast<std::size_t>(x.elements() - shared),
            .own = x.data + bytes_of(x.dtype, rank() * equal),
            .tail = x.data + bytes_of(x.dtype, shared),
            .last = static_cast<int>(ranks()) - 1};
  }
  cudaStream_t stream() const { return stream_.get(); }
  std::int64_t timeout_seconds() const { return timeout_.count() / 1000; }

  // NCCL's name of the job goes round as a sum to which only rank 0 adds.
  void connect() {
    ncclUniqueId id{};
    std::array<double, sizeof(id.internal)> bytes{};
    if (rank() == 0) {
      settle("ncclGetUniqueId", nccl().get_unique_id(&id));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<unsigned char>(id.internal[i]);
      }
    }
    hosts_->sum(bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      id.internal[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]));
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    settle("ncclCommInitRankConfig",
           nccl().comm_init_rank_config(&comm_, static_cast<int>(ranks()), id,
                                        static_cast<int>(rank()), &config));
  }

  // Waits until NCCL has done what a call began, which is not yet the work on the GPU.
  void settle(const char* call, ncclResult_t result) {
    const auto deadline = Clock::now() + timeout_;
    while (result == ncclInProgress) {
      if (hosts_->alarm()) abandon(fmt::format("{} waits", call));
      if (Clock::now() > deadline) {
        abandon(fmt::format("{} has waited {} s", call, timeout_seconds()));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const ncclResult_t asked = nccl().comm_get_async_error(comm_, &result);
      if (asked != ncclSuccess) result = asked;
    }
    if (result != ncclSuccess) refuse(call, result);
  }

  template <class Queue>
  void run(const char* name, const TensorView& x, const Queue& queue) {
    require(comm_ != nullptr, ErrorKind::Comm, "rank {}: {} after the ranks have parted", rank(),
            name);
    retire();
    if (finished_.empty()) finished_.emplace_back();
    pending_.push_back(std::move(finished_.front()));
    finished_.pop_front();
    Collective& call = pending_.back();
    call.name = name;
    call.deadline = Clock::time_point::max();
    call.begin.record(compute_.get());
    check(cudaStreamWaitEvent(stream(), call.begin.get(), 0), "cudaStreamWaitEvent");
    settle("ncclGroupStart", nccl().group_start());
    queue(divide(x));
    settle("ncclGroupEnd", nccl().group_end());
    call.end.record(stream());
  }

  void retire() {
    while (!pending_.empty() && pending_.front().end.is_reached()) {
      finished_.push_back(std::move(pending_.front()));
      pending_.pop_front();
    }
  }

  // Called over and over while the host waits for a stream.
  void watch() {
    constexpr std::chrono::milliseconds kPause{5};
    if (comm_ == nullptr || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + kPause;
    retire();
    if (pending_.empty()) return;
    Collective& call = pending_.front();
    ncclResult_t result = ncclSuccess;
    settle(call.name, nccl().comm_get_async_error(comm_, &result));
    if (result != ncclSuccess && result != ncclInProgress) refuse(call.name, result);
    if (hosts_->alarm()) abandon(fmt::format("{} waits", call.name));
    if (call.deadline == Clock::time_point::max()) {
      if (call.begin.is_reached()) call.deadline = Clock::now() + timeout_;
    } else if (Clock::now() > call.deadline) {
      abandon(fmt::format("{} has waited {} s", call.name, timeout_seconds()));
    }
  }

  // Ends the job because another rank does not come.
  [[noreturn]] void abandon(const std::string& what) {
    abort();
    hosts_->give_up(fmt::format("{}: {}", backend_.description(), what));
  }

  [[noreturn]] void refuse(const char* call, ncclResult_t result) {
    const std::string details = nccl().get_last_error(comm_);
    abort();
    fail(ErrorKind::Comm,
         "rank {}: {}: {}: NCCL: {}{}{}; NCCL_DEBUG=WARN shows more; resume from the last "
         "checkpoint",
         rank(), backend_.description(), call, nccl().get_error_string(result),
         details.empty() ? "" : ": ", details);
  }

  void abort() {
    if (comm_ != nullptr) nccl().comm_abort(std::exchange(comm_, nullptr));
  }

  void close() {
    if (comm_ == nullptr) return;
    stream_.synchronize();
    settle("ncclCommFinalize", nccl().comm_finalize(comm_));
    nccl().comm_destroy(std::exchange(comm_, nullptr));
  }

  std::vector<std::int64_t> find_missing() override { return {}; }

  std::unique_ptr<HostCommunicator> hosts_;
  Backend& backend_;
  std::chrono::milliseconds timeout_;
  cuda::Stream& compute_;
  cuda::Stream stream_;
  ncclComm_t comm_ = nullptr;  // null: the ranks have parted
  Clock::time_point next_look_{};
  std::deque<Collective> pending_;   // oldest first
  std::deque<Collective> finished_;  // their events are used again
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Backend& backend,
                                                     std::unique_ptr<HostCommunicator> hosts,
                                                     std::chrono::milliseconds timeout) {
  return std::make_unique<NcclCommunicator>(backend, std::move(hosts), timeout);
}

}  // namespace flywheel

#include "dist/mpi_communicator.h"

// Not the C++ classes that MPI 3 removed.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "core/error.h"

namespace flywheel {
namespace {

using Clock = std::chrono::steady_clock;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail(ErrorKind::Comm, "{}: {}", call, text.data());
}

int narrow(std::int64_t x) {
  require(x <= std::numeric_limits<int>::max(), ErrorKind::Comm,
          "{} elements are more than MPI counts", x);
  return static_cast<int>(x);
}

MPI_Datatype type_of(DType dtype) {
  switch (size_of(dtype)) {
    case 4:
      return MPI_FLOAT;
    case 2:
      return MPI_UINT16_T;
    default:
      fail(ErrorKind::Internal, "tensors of {} are not sent", name_of(dtype));
  }
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::chrono::milliseconds timeout) : timeout_(timeout) {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
  }

  // A rank that failed does not wait for the others: mpirun ends them.
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t ranks() const override { return ranks_; }

  void reduce_scatter(const TensorView& x) override {
    require(x.dtype == DType::F32, ErrorKind::Internal, "only float32 is summed");
    Pending& pending = next("reduce_scatter", x.elements());
    const Part mine = part_of(x.elements(), rank_, ranks_);
    pending.sums.resize(static_cast<std::size_t>(mine.elements()));
    pending.to = x.f32() + mine.begin;
    check(MPI_Ireduce_scatter(x.data, pending.sums.data(), pending.counts.data(), MPI_FLOAT,
                              MPI_SUM, MPI_COMM_WORLD, &pending.request),
          pending.call);
  }

  void all_gather(const TensorView& x) override {
    join();  // it may be of what is being summed
    Pending& pending = next("all_gather", x.elements());
    check(
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x.data, pending.counts.data(),
                        pending.begins.data(), type_of(x.dtype), MPI_COMM_WORLD, &pending.request),
        pending.call);
  }

  void join() override {
    for (std::size_t i = 0; i < started_; ++i) {
      Pending& pending = pending_[i];
      wait(pending.call, pending.request);
      std::copy(pending.sums.begin(), pending.sums.end(), pending.to);
    }
    started_ = 0;
  }

  void sum(std::span<double> values) override {
    std::vector<double> all(values.size() * static_cast<std::size_t>(ranks_));
    const int count = narrow(std::ssize(values));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE,
                         MPI_COMM_WORLD, &request),
          "sum");
    wait("sum", request);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (std::size_t at = i; at < all.size(); at += values.size()) values[i] += all[at];
    }
  }

  bool alarm() override {
    int arrived = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, kGivesUp, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    return arrived != 0;
  }

 private:
  // A call that has been started. Buffers are used again in the next step.
  struct Pending {
    const char* call = "";
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<int> counts, begins;
    std::vector<float> sums;  // of the own part
    float* to = nullptr;
  };

  Pending& next(const char* call, std::int64_t elements) {
    if (started_ == pending_.size()) pending_.emplace_back();
    Pending& pending = pending_[started_++];
    pending.call = call;
    pending.counts.clear();
    pending.begins.clear();
    pending.sums.clear();
    for (int r = 0; r < ranks_; ++r) {
      const Part part = part_of(elements, r, ranks_);
      pending.counts.push_back(narrow(part.elements()));
      pending.begins.push_back(narrow(part.begin));
    }
    return pending;
  }

  void wait(const char* call, MPI_Request& request) {
    const auto deadline = Clock::now() + timeout_;
    for (int tries = 0;; ++tries) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
      if (done != 0) return;
      if (Clock::now() > deadline) {
        give_up(fmt::format("{} has waited {} s", call, timeout_.count() / 1000));
      }
      pause(tries);
    }
  }

  static void pause(int tries) {
    constexpr int kYields = 10'000;  // then the wait is long, and a core better used by others
    if (tries < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  // Every rank that gives up says so to the others; those that say nothing are the cause.
  std::vector<std::int64_t> find_missing() override {
    constexpr std::chrono::seconds kPatience{2};
    std::vector<bool> here(static_cast<std::size_t>(ranks_), false);
    here[static_cast<std::size_t>(rank_)] = true;
    for (int r = 0; r < ranks_; ++r) {
      MPI_Request ignored = MPI_REQUEST_NULL;
      if (r != rank_) MPI_Isend(nullptr, 0, MPI_BYTE, r, kGivesUp, MPI_COMM_WORLD, &ignored);
    }
    for (const auto end = Clock::now() + kPatience; Clock::now() < end; pause(0)) {
      if (!alarm()) continue;
      MPI_Status status;
      MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kGivesUp, MPI_COMM_WORLD, &status);
      here[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    }
    std::vector<std::int64_t> missing;
    for (int r = 0; r < ranks_; ++r) {
      if (!here[static_cast<std::size_t>(r)]) missing.push_back(r);
    }
    return missing;
  }

  static constexpr int kGivesUp = 1;  // tag

  std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int ranks_ = 1;
  std::deque<Pending> pending_;
  std::size_t started_ = 0;  // of them
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout) {
  return std::make_unique<MpiCommunicator>(timeout);
}

}  // namespace flywheel

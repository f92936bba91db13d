#include "dist/mpi_communicator.h"

// Not the C++ classes that MPI 3 removed.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
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
    divide(x.elements());
    const Part mine = part_of(x.elements(), rank_, ranks_);
    sums_.resize(static_cast<std::size_t>(mine.elements()));
    wait("reduce_scatter", [&](MPI_Request* request) {
      return MPI_Ireduce_scatter(x.data, sums_.data(), counts_.data(), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD, request);
    });
    std::copy(sums_.begin(), sums_.end(), x.f32() + mine.begin);
  }

  void all_gather(const TensorView& x) override {
    divide(x.elements());
    wait("all_gather", [&](MPI_Request* request) {
      return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x.data, counts_.data(),
                             begins_.data(), type_of(x.dtype), MPI_COMM_WORLD, request);
    });
  }

  void sum(std::span<double> values) override {
    std::vector<double> all(values.size() * static_cast<std::size_t>(ranks_));
    const int count = narrow(std::ssize(values));
    wait("sum", [&](MPI_Request* request) {
      return MPI_Iallgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE,
                            MPI_COMM_WORLD, request);
    });
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (std::size_t at = i; at < all.size(); at += values.size()) values[i] += all[at];
    }
  }

 private:
  void divide(std::int64_t elements) {
    counts_.clear();
    begins_.clear();
    for (int r = 0; r < ranks_; ++r) {
      const Part part = part_of(elements, r, ranks_);
      counts_.push_back(narrow(part.elements()));
      begins_.push_back(narrow(part.begin));
    }
  }

  template <class Start>
  void wait(const char* call, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request), call);
    const auto deadline = Clock::now() + timeout_;
    for (int tries = 0;; ++tries) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
      if (done != 0) return;
      if (Clock::now() > deadline) give_up(call);
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

  // Every rank that waits says so to the others; those that say nothing are the cause.
  [[noreturn]] void give_up(const char* call) {
    constexpr int kTag = 1;
    constexpr std::chrono::seconds kPatience{2};
    std::vector<bool> waits(static_cast<std::size_t>(ranks_), false);
    waits[static_cast<std::size_t>(rank_)] = true;
    for (int r = 0; r < ranks_; ++r) {
      MPI_Request ignored = MPI_REQUEST_NULL;
      if (r != rank_) MPI_Isend(nullptr, 0, MPI_BYTE, r, kTag, MPI_COMM_WORLD, &ignored);
    }
    for (const auto end = Clock::now() + kPatience; Clock::now() < end; pause(0)) {
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &arrived, &status);
      if (arrived == 0) continue;
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      waits[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    }
    std::string missing;
    for (int r = 0; r < ranks_; ++r) {
      if (!waits[static_cast<std::size_t>(r)]) missing += fmt::format(" {}", r);
    }
    fail(ErrorKind::Comm, "rank {}: {} has waited {} s for rank{}; resume from the last checkpoint",
         rank_, call, timeout_.count() / 1000, missing.empty() ? "s that came too late" : missing);
  }

  std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<int> counts_;
  std::vector<int> begins_;
  std::vector<float> sums_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout) {
  return std::make_unique<MpiCommunicator>(timeout);
}

}  // namespace flywheel

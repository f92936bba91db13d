#include "support/local_ranks.h"

#include <algorithm>
#include <barrier>
#include <exception>
#include <thread>
#include <vector>

namespace flywheel::test {
namespace {

struct Meeting {
  explicit Meeting(std::int64_t ranks)
      : tensors(static_cast<std::size_t>(ranks)),
        values(static_cast<std::size_t>(ranks)),
        all_here(ranks) {}

  std::vector<TensorView> tensors;
  std::vector<std::vector<double>> values;
  std::barrier<> all_here;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(Meeting& meeting, std::int64_t rank) : meeting_(meeting), rank_(rank) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t ranks() const override { return std::ssize(meeting_.tensors); }

  void reduce_scatter(const TensorView& x) override {
    exchange(x, [&](const std::vector<TensorView>& tensors) {
      const Part mine = part_of(x.elements(), rank_, ranks());
      for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        float sum = 0;
        for (const TensorView& tensor : tensors) sum += tensor.f32()[i];
        x.f32()[i] = sum;
      }
    });
  }

  void all_gather(const TensorView& x) override {
    exchange(x, [&](const std::vector<TensorView>& tensors) {
      for (std::int64_t r = 0; r < ranks(); ++r) {
        if (r == rank_) continue;
        const Part part = part_of(x.elements(), r, ranks());
        const std::int64_t begin = bytes_of(x.dtype, part.begin);
        std::copy_n(tensors[static_cast<std::size_t>(r)].data + begin,
                    bytes_of(x.dtype, part.elements()), x.data + begin);
      }
    });
  }

  void join() override {}
  bool alarm() override { return false; }

  void sum(std::span<double> values) override {
    meeting_.values[static_cast<std::size_t>(rank_)].assign(values.begin(), values.end());
    meeting_.all_here.arrive_and_wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (const auto& theirs : meeting_.values) values[i] += theirs[i];
    }
    meeting_.all_here.arrive_and_wait();
  }

 private:
  std::vector<std::int64_t> find_missing() override { return {}; }

  template <class Work>
  void exchange(const TensorView& x, const Work& work) {
    meeting_.tensors[static_cast<std::size_t>(rank_)] = x;
    meeting_.all_here.arrive_and_wait();
    work(meeting_.tensors);
    meeting_.all_here.arrive_and_wait();
  }

  Meeting& meeting_;
  std::int64_t rank_;
};

}  // namespace

void run_local_ranks(std::int64_t ranks, const std::function<void(Communicator&)>& body) {
  Meeting meeting(ranks);
  std::vector<std::exception_ptr> faults(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      LocalCommunicator communicator(meeting, rank);
      try {
        body(communicator);
      } catch (...) {
        faults[static_cast<std::size_t>(rank)] = std::current_exception();
        meeting.all_here.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& fault : faults) {
    if (fault) std::rethrow_exception(fault);
  }
}

}  // namespace flywheel::test

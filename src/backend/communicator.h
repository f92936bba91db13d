#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/tensor.h"

namespace flywheel {

// Elements [begin, end) of a flat tensor: what a rank is responsible for.
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t elements() const { return end - begin; }
  bool operator==(const Part&) const = default;
};

// The part of `elements` that is a rank's: equal ones in order, whole cache lines; the last one may
// be longer, by less than a line a rank.
Part part_of(std::int64_t elements, std::int64_t rank, std::int64_t ranks);

// The processes of a job, seen from one of them: small messages beside the tensors. All make the
// same calls in the same order. Error Comm names the call and, as far as it is known, the rank that
// is gone or does not answer.
class HostCommunicator {
 public:
  virtual ~HostCommunicator() = default;

  virtual std::int64_t rank() const = 0;
  virtual std::int64_t ranks() const = 0;
  // Values of the host become their sums over all ranks, added in their order.
  virtual void sum(std::span<double> values) = 0;

  // Whether another rank gives up, or is gone.
  virtual bool alarm() = 0;
  // Ends the job: Error Comm that says what this rank did ("reduce_scatter has waited 600 s") and
  // which ranks do not give up as well within seconds, because they are gone or hang.
  [[noreturn]] void give_up(const std::string& what);

 private:
  virtual std::vector<std::int64_t> find_missing() = 0;
};

// The ranks of a job with their tensors, which are flat, contiguous, of the same shape on all ranks
// and lie where the backend computes. The calls with tensors are queued: they come after what the
// backend has been given before, and what it is given after join() comes after them. A sum is taken
// on one rank and copied to the others, so that all have the same bits.
class Communicator : public HostCommunicator {
 public:
  // The own part of x (F32) becomes its sum over all ranks. What the rest holds is undefined.
  virtual void reduce_scatter(const TensorView& x) = 0;
  // Every part of x becomes what it is on the rank whose part it is.
  virtual void all_gather(const TensorView& x) = 0;
  // x (F32) becomes its sum over all ranks.
  void all_reduce(const TensorView& x);
  virtual void join() = 0;
};

// The only rank of a job.
class SingleCommunicator final : public Communicator {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t ranks() const override { return 1; }
  void sum(std::span<double> /*values*/) override {}
  bool alarm() override { return false; }
  void reduce_scatter(const TensorView& /*x*/) override {}
  void all_gather(const TensorView& /*x*/) override {}
  void join() override {}

 private:
  std::vector<std::int64_t> find_missing() override { return {}; }
};

}  // namespace flywheel

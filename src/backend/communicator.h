#pragma once

#include <cstdint>
#include <span>

#include "backend/tensor.h"

namespace flywheel {

// Elements [begin, end) of a flat tensor: what a rank is responsible for.
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t elements() const { return end - begin; }
  bool operator==(const Part&) const = default;
};

// The part of `elements` that is a rank's: equal ones in order, whole cache lines; the last ones
// may be shorter or empty.
Part part_of(std::int64_t elements, std::int64_t rank, std::int64_t ranks);

// The ranks of a job, seen from one of them. All make the same calls in the same order, with
// tensors of the same shape; tensors are flat, contiguous and lie where the backend computes. A sum
// is taken on one rank and copied to the others, so that all have the same bits. Error Comm names
// the call and, as far as it is known, the rank that is gone or does not answer.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int64_t rank() const = 0;
  virtual std::int64_t ranks() const = 0;

  // The own part of x (F32) becomes its sum over all ranks. What the rest holds is undefined.
  virtual void reduce_scatter(const TensorView& x) = 0;
  // Every part of x becomes what it is on the rank whose part it is.
  virtual void all_gather(const TensorView& x) = 0;
  // x (F32) becomes its sum over all ranks.
  void all_reduce(const TensorView& x);
  // Values of the host become their sums over all ranks.
  virtual void sum(std::span<double> values) = 0;
};

// The only rank of a job.
class SingleCommunicator final : public Communicator {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t ranks() const override { return 1; }
  void reduce_scatter(const TensorView& /*x*/) override {}
  void all_gather(const TensorView& /*x*/) override {}
  void sum(std::span<double> /*values*/) override {}
};

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/communicator.h"
#include "model/transformer.h"
#include "train/batch_slice.h"
#include "train/train_config.h"

namespace flywheel {

// The first windows of the validation set, held in memory, and the mean loss on them. Every
// validation sees the same tokens and the same attention permutations.
class Validation {
 public:
  // Error Data if the files are missing or hold no window.
  explicit Validation(const RunConfig& config);

  double mean_loss(Transformer& model, Communicator& ranks);  // nats a token; the ranks share it
  std::int64_t sequences() const { return sequences_; }
  std::uint64_t tokenizer_fingerprint() const { return tokenizer_fingerprint_; }  // 0: unknown

 private:
  Batch batch() const;

  std::int64_t sequences_ = 0;
  std::int64_t micro_batch_;
  std::uint64_t seed_;
  std::uint64_t tokenizer_fingerprint_ = 0;
  std::vector<std::int32_t> inputs_, targets_, positions_, cu_seqlens_;
  std::vector<float> losses_;
  BatchSlicer slicer_;
};

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/request.h"

namespace flywheel {

// The tokens that were predicted from `first` to `last` tokens of context.
struct PositionLoss {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t tokens = 0;
  double loss = 0;  // mean, nats
};

// By the length of the context: 1 to 16 tokens, 17 to 32, 33 to 64 and so on in powers of two;
// lengths that did not occur are left out. scores[i] are those of requests[i].
std::vector<PositionLoss> loss_by_position(std::span<const TokenRequest> requests,
                                           std::span<const std::vector<TokenScore>> scores);

}  // namespace flywheel

#pragma once

#include "support/attention_reference.h"

namespace flywheel::test {

// Requires that no error of `result`, the forward and the backward pass over `in`, against the
// double reference is above twice that of the naive float loops, plus rounding.
void check_attention(const AttentionCase& c, const AttentionTensors<float>& in,
                     AttentionTensors<float> result);

}  // namespace flywheel::test

#include "attention/plan.h"

namespace flywheel {

AttentionPlan::AttentionPlan(const AttentionPattern& pattern, std::int64_t tile, std::int64_t,
                             std::int64_t)
    : pattern_(pattern), tile_(tile) {}

}  // namespace flywheel

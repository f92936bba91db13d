#pragma once

#include <string>
#include <vector>

#include "analysis/mixing.h"
#include "plot/chart.h"

namespace flywheel {

struct MixingResult {
  std::string pattern;
  std::vector<SingularValues> layers;  // of the product of the first 1, 2, ...
};

// pattern,layer,first,second
std::string mixing_csv(const std::vector<MixingResult>& results);
// All of it, the errors of the estimator by window too.
std::string mixing_json(const std::vector<MixingResult>& results,
                        const std::vector<EstimatorError>& errors, const MixingOptions& options);
Chart mixing_chart(const std::vector<MixingResult>& results, const MixingOptions& options);

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/request.h"
#include "eval/tasks/task.h"

namespace flywheel {

// Scores of one document's requests; `tokens` were scored.
struct DocumentScore {
  std::vector<Score> requests;
  std::int64_t tokens = 0;
  std::string output;   // Program: what the model wrote
  bool passed = false;  // Program: it ran to its end
};

struct MetricValue {
  double value = 0;
  std::optional<double> error;  // standard error; none where there is none
};

// A metric of one document: what the aggregate is made of. Those per word, byte or token are a sum
// and what it is divided by; the others have weight 1.
struct DocumentMetric {
  double value = 0;
  std::int64_t weight = 1;
};
DocumentMetric document_metric(const std::string& metric, const Item& item,
                               const DocumentScore& score);

// Over all documents, which are not none. 0 iterations leave out the errors by bootstrap.
MetricValue aggregate(const std::string& metric, std::span<const DocumentMetric> documents,
                      std::int64_t bootstrap_iterations);

}  // namespace flywheel

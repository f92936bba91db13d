#pragma once

#include <string>

#include "data/tokenize_job.h"

namespace flywheel {

// One line, without a line break: megabytes done, documents, rates, time left.
std::string progress_text(const TokenizeProgress& progress, double seconds);

// Documents, tokens and shards of both splits, tokens a byte, rate; lines that end with a line
// break.
std::string summary_text(const TokenizeSummary& summary, double seconds);

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "data/token_source.h"

namespace flywheel {

// A loader's sources, opened and checked against each other and the config.
struct SourceSet {
  explicit SourceSet(const LoaderConfig& config);  // Error Config, Data, Io

  std::vector<TokenSource> sources;
  std::vector<double> weights;
  std::vector<std::int64_t> windows;  // of each source, with the config's limit
  DataSummary summary;
  std::int32_t end_of_document = -1;  // that all shards share; -1: none states one
};

}  // namespace flywheel

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/fields.h"

namespace flywheel {

struct DataSourceConfig {
  std::vector<std::string> files;  // token files; * and ? are expanded, in sorted order
  double weight = 1.0;             // share of the windows drawn from this source

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("files", self.files, "token files of this source (globs allowed)");
    visit("weight", self.weight, "share of the windows that come from this source");
  }
};

struct LoaderConfig {
  std::vector<DataSourceConfig> sources;
  std::int64_t sequence_length = 1024;  // tokens of a window; it reads one more for the last target
  bool document_mask = false;           // cut sequences at document boundaries
  std::uint64_t seed = 0;
  bool shuffle = true;            // false: windows in file order (validation)
  std::int64_t window_limit = 0;  // only the first that many windows of each source; 0: all
  std::int64_t vocab_size = 0;  // the model's; a larger token is an error. 0: what the shards state
};

// Where the loader stands. Window number `windows` is next; everything else follows from the
// config.
struct DataPosition {
  std::int64_t windows = 0;  // windows of the global order that were consumed
  bool operator==(const DataPosition&) const = default;
};

// `sequences_per_batch` windows, packed. Valid until the next call of next().
struct Batch {
  std::span<const std::int32_t> inputs;      // [T]
  std::span<const std::int32_t> targets;     // [T]
  std::span<const std::int32_t> positions;   // [T], from 0 in every sequence
  std::span<const std::int32_t> cu_seqlens;  // [S + 1]
  std::int64_t first_window = 0;  // number of the batch's first window in the global order
};

struct DataSummary {
  std::int64_t tokens = 0;                  // all sources
  std::int64_t windows_per_epoch = 0;       // of the first source's epoch, weights aside
  std::uint64_t fingerprint = 0;            // of all files: changes when one is altered
  std::int64_t vocab_size = 0;              // the largest that a shard states; 0: unknown
  std::uint64_t tokenizer_fingerprint = 0;  // 0: unknown; differing shards are an error
};

// Reads windows of token files in an order that is a pure function of (seed, epoch, index), on a
// thread of its own, ahead of the consumer.
//
// A source is the concatenation of its shards. Window w of it is the sequence_length + 1 tokens
// from token w * sequence_length on; the tail that does not fill a window is dropped. An epoch
// visits each window once.
class Loader {
 public:
  // Rank r of `ranks` takes windows r, r + ranks, ... of every step's run: the global order is the
  // same at any number of ranks and any batch size. Error Data: a file is missing or damaged, a
  // source is smaller than one window, shards were made by different tokenizers.
  Loader(const LoaderConfig& config, std::int64_t sequences_per_batch, const DataPosition& start,
         int rank = 0, int ranks = 1);
  ~Loader();

  const Batch& next();  // waits for the reader thread; Error Data / Io from it surface here
  DataPosition position() const;  // after the batches that next() returned
  const DataSummary& summary() const;
  double epochs() const;        // passes over the first source so far
  double wait_seconds() const;  // time that next() has spent waiting, in total

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flywheel

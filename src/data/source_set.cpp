#include "data/source_set.h"

#include <algorithm>
#include <cmath>

#include "core/checksum.h"
#include "core/error.h"

namespace flywheel {
namespace {

void validate(const DataSourceConfig& source) {
  require(!source.files.empty(), ErrorKind::Config, "data: a source names no files");
  require(std::isfinite(source.weight) && source.weight > 0, ErrorKind::Config,
          "data: weight {} of source {}; expected a number above 0", source.weight,
          source.files.front());
}

std::int64_t count_windows(const TokenSource& source, const LoaderConfig& config,
                           const std::string& name) {
  const std::int64_t count = (source.tokens() - 1) / config.sequence_length;
  require(count >= 1, ErrorKind::Data,
          "{}: {} tokens in {} file(s), but a window takes sequence_length + 1 = {}; add text or "
          "lower sequence_length",
          name, source.tokens(), source.shards().size(), config.sequence_length + 1);
  return config.window_limit > 0 ? std::min(count, config.window_limit) : count;
}

// Compares every shard with the first one that states the same thing.
class Agreement {
 public:
  explicit Agreement(bool document_mask) : document_mask_(document_mask) {}

  void add(const ShardReader& shard) {
    if (shard.info().tokenizer_fingerprint != 0) {
      if (!fingerprinted_) fingerprinted_ = &shard;
      const std::uint64_t expected = fingerprinted_->info().tokenizer_fingerprint;
      require(
          shard.info().tokenizer_fingerprint == expected, ErrorKind::Data,
          "{}: made by another tokenizer (fingerprint {}) than {} ({}); tokenize all data alike",
          shard.path().string(), checksum_text(shard.info().tokenizer_fingerprint),
          fingerprinted_->path().string(), checksum_text(expected));
    }
    if (!document_mask_) return;
    require(shard.info().end_of_document >= 0, ErrorKind::Data,
            "{}: states no end-of-document id, which document_mask needs; switch that off",
            shard.path().string());
    if (!marked_) marked_ = &shard;
    require(shard.info().end_of_document == end_of_document(), ErrorKind::Data,
            "{}: documents begin with id {}, but with id {} in {}; tokenize all data alike",
            shard.path().string(), shard.info().end_of_document, end_of_document(),
            marked_->path().string());
  }

  std::uint64_t tokenizer_fingerprint() const {
    return fingerprinted_ ? fingerprinted_->info().tokenizer_fingerprint : 0;
  }
  std::int32_t end_of_document() const { return marked_ ? marked_->info().end_of_document : -1; }

 private:
  bool document_mask_;
  const ShardReader* fingerprinted_ = nullptr;
  const ShardReader* marked_ = nullptr;
};

}  // namespace

SourceSet::SourceSet(const LoaderConfig& config) {
  require(!config.sources.empty(), ErrorKind::Config, "data: no sources; name token files");
  for (const DataSourceConfig& source : config.sources) {
    validate(source);
    sources.emplace_back(source.files);
    weights.push_back(source.weight);
    windows.push_back(count_windows(sources.back(), config, source.files.front()));
  }

  Agreement agreement(config.document_mask);
  StreamingChecksum sum;
  for (const TokenSource& source : sources) {
    summary.tokens += source.tokens();
    for (const ShardReader& shard : source.shards()) {
      agreement.add(shard);
      const std::uint64_t fingerprint = shard.fingerprint();
      sum.update(std::as_bytes(std::span(&fingerprint, 1)));
      const std::int64_t vocab_size = shard.info().vocab_size;
      require(config.vocab_size == 0 || vocab_size <= config.vocab_size, ErrorKind::Data,
              "{}: made for a vocabulary of {} ids, but the model's has {}; tokenize with the "
              "model's tokenizer",
              shard.path().string(), vocab_size, config.vocab_size);
      summary.vocab_size = std::max(summary.vocab_size, vocab_size);
    }
  }
  summary.windows_per_epoch = windows.front();
  summary.fingerprint = sum.value();
  summary.tokenizer_fingerprint = agreement.tokenizer_fingerprint();
  end_of_document = agreement.end_of_document();
}

}  // namespace flywheel

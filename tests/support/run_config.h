#pragma once

#include <filesystem>
#include <vector>

#include "core/philox.h"
#include "support/token_files.h"
#include "train/train_config.h"

namespace flywheel::test {

// Documents of bytes with some structure to learn: each counts up from a random byte in a random
// stride.
inline std::vector<Tokens> counting_documents(std::uint64_t seed, std::int64_t count,
                                              std::int64_t length) {
  std::vector<Tokens> documents;
  for (std::int64_t i = 0; i < count; ++i) {
    const RandomSequence random(seed, RandomStream::kCorpus, static_cast<std::uint32_t>(i));
    const auto start = static_cast<std::int32_t>(random.below(0, 256));
    const auto stride = static_cast<std::int32_t>(1 + random.below(1, 3));
    Tokens tokens;
    for (std::int32_t j = 0; j < length; ++j) tokens.push_back((start + j * stride) % 256);
    documents.push_back(std::move(tokens));
  }
  return documents;
}

// A shard of the byte tokenizer.
inline void write_byte_shard(const std::filesystem::path& path, std::uint64_t seed,
                             std::int64_t documents, std::int64_t length) {
  ShardInfo info;
  info.token_bytes = 2;
  info.vocab_size = 257;
  info.end_of_document = 256;
  ShardWriter writer(path, info);
  for (const Tokens& document : counting_documents(seed, documents, length)) {
    writer.add_document(document);
  }
  writer.close();
}

// A model of two layers, one of them gated, over byte shards train_*.bin and val.bin of `folder`,
// which this writes: 2 training shards of some 20 windows each, so that a few steps cross shards
// and epochs.
inline RunConfig tiny_run(const std::filesystem::path& folder) {
  write_byte_shard(folder / "train_0.bin", 1, 7, 90);
  write_byte_shard(folder / "train_1.bin", 2, 9, 75);
  write_byte_shard(folder / "val.bin", 3, 4, 80);
  RunConfig config;
  config.model.vocab_size = 257;
  config.model.hidden_size = 16;
  config.model.layers = 2;
  config.model.heads = 2;
  config.model.intermediate_size = 32;
  config.model.max_positions = 32;
  config.model.attention.window = 8;
  config.model.attention.pattern.resize(2);
  config.model.attention.pattern[0].set_short_form("sa_swa");
  config.model.attention.pattern[1].set_short_form("sa");
  config.data.tokenizer = "byte";
  config.data.train.push_back({.files = {(folder / "train_*.bin").string()}, .weight = 1.0});
  config.data.validation = {(folder / "val.bin").string()};
  config.data.sequence_length = 32;
  config.optimizer.learning_rate = 1e-2;
  config.train.max_steps = 12;
  config.train.global_batch_tokens = 8 * 32;
  config.train.micro_batch_sequences = 4;
  config.train.validation_every = 4;
  config.train.validation_sequences = 5;
  config.train.threads = 1;
  config.checkpoint.folder = (folder / "run").string();
  config.checkpoint.every = 4;
  config.log.tensorboard = false;
  return config;
}

}  // namespace flywheel::test

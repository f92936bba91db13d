#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/bpe.h"
#include "data/word_counts.h"

namespace flywheel {

struct LearnedBpe {
  std::vector<std::string> tokens;  // by id; all but the special ones in letters (byte_level.h)
  std::vector<BpeMerge> merges;     // in order of priority
};

// Learns a byte-level BPE vocabulary (Sennrich et al. 2016): the special tokens, the 256 bytes by
// their letters' code points, and the union of the most frequent adjacent pair of tokens, again and
// again; of equally frequent pairs, the one with the smallest ids. Stops at `vocab_size` tokens, or
// when no word has two tokens left; a pair that occurs once counts, too.
//
// The result is that of the trainer of Hugging Face's `tokenizers` (docs/formats.md). No two merges
// give the same token: between two places that no merge has crossed, equal text has seen the same
// merges and is cut alike. So a pair that was joined never comes back, and a pair grows only in the
// merge that makes the younger of its tokens.
//
// Counts are kept up to date: a merge costs what the words that have the pair cost. `report` is
// called with the number of tokens after each merge. Error Config: special tokens that are equal,
// or letters of bytes.
LearnedBpe learn_bpe(std::span<const WordCount> words, std::int64_t vocab_size,
                     const std::vector<std::string>& special_tokens,
                     const std::function<void(std::int64_t)>& report);

}  // namespace flywheel

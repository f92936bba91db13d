#pragma once

#include <string>
#include <vector>

#include "data/added_tokens.h"
#include "data/normalizer.h"
#include "data/pretokenizer.h"

namespace flywheel {

// How a tokenizer that is being trained turns text into words.
struct WordRules {
  AddedTokenFinder special_tokens;  // cut out first: no merge crosses them
  NormalizerPtr normalizer;         // null: none
  PreTokenizerPtr pretokenizer;
  std::string normalizer_json;  // both as a tokenizer.json has them
  std::string pretokenizer_json;
};

// `name` is "gpt2" (split by GPT-2's pattern) or a tokenizer.json whose normalizer and
// pre_tokenizer are taken. The special tokens get the ids 0, 1, ... Error Data, Io.
WordRules load_word_rules(const std::string& name, const std::vector<std::string>& special_tokens);

}  // namespace flywheel

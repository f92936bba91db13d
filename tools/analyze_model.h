#pragma once

#include <cxxopts.hpp>
#include <memory>
#include <string>
#include <vector>

#include "eval/scorer.h"
#include "infer/load_model.h"

namespace flywheel {

// Flags of the subcommands of `analyze` that run a model over a text: --text, --max-length,
// --windows, --seed, --threads.
void add_text_flags(cxxopts::Options& options);

// A model that is ready for a text, and the text in windows: every token but the first is
// predicted once, from 1 to max_length tokens of context.
struct ModelAndText {
  TransformerLimits limits;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> model;
  std::vector<TokenRequest> windows;
};
// Error Config or Data names the flag or file.
ModelAndText open_model_and_text(const std::string& name, const cxxopts::ParseResult& args);

}  // namespace flywheel

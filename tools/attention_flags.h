#pragma once

#include <cxxopts.hpp>
#include <string>

#include "core/error.h"
#include "model/attention_override.h"

namespace flywheel {

// The flags of every program that may replace a model's attention.
inline void add_attention_flags(cxxopts::Options& options) {
  options.add_options("Attention of the model")(
      "attention", "use this pattern, weights untouched: full, swa, sa, moba or sa_swa",
      cxxopts::value<std::string>(),
      "NAME")("window", "keys of a window; moba: of all blocks that a query sees",
              cxxopts::value<std::int64_t>(),
              "N")("band", "sa: centered or trailing", cxxopts::value<std::string>(), "NAME")(
      "budget", "sa: slots, or matched (as many keys as swa)", cxxopts::value<std::string>(),
      "NAME")("clipped", "sa: ranks form a line with shorter bands at its ends, not a circle")(
      "moba-block", "moba: keys of a block, in place of --window", cxxopts::value<std::int64_t>(),
      "N")("moba-topk",
           "moba: blocks that a query sees, its own among them; default: the model's, else 2",
           cxxopts::value<std::int64_t>(),
           "K")("attention-layers", "which layers: all, even, odd or 0,3,8-11",
                cxxopts::value<std::string>()->default_value("all"), "LIST");
}

template <class Enum>
Enum enum_flag(const std::string& flag, const std::string& text) {
  std::string known;
  for (const auto& entry : enum_names(Enum{})) {
    if (entry.name == text) return entry.value;
    known += (known.empty() ? "" : " or ") + std::string(entry.name);
  }
  fail(ErrorKind::Config, "--{} {}: expected {}", flag, text, known);
}

inline AttentionOverride attention_flags(const cxxopts::ParseResult& args) {
  AttentionOverride result;
  if (args.count("attention") != 0) result.pattern = args["attention"].as<std::string>();
  if (args.count("window") != 0) result.window = args["window"].as<std::int64_t>();
  if (args.count("band") != 0)
    result.band = enum_flag<Band>("band", args["band"].as<std::string>());
  if (args.count("budget") != 0) {
    result.budget = enum_flag<Budget>("budget", args["budget"].as<std::string>());
  }
  if (args.count("moba-block") != 0) result.moba_block = args["moba-block"].as<std::int64_t>();
  if (args.count("moba-topk") != 0) result.moba_topk = args["moba-topk"].as<std::int64_t>();
  if (args.count("clipped") != 0) result.circular = false;
  result.layers = args["attention-layers"].as<std::string>();
  return result;
}

}  // namespace flywheel

#include "model/attention_override.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/nearest_name.h"

namespace flywheel {
namespace {

std::int64_t layer_number(std::string_view text, std::int64_t layers) {
  std::int64_t number = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(
      fault == std::errc() && end == text.data() + text.size() && 0 <= number && number < layers,
      ErrorKind::Config,
      "attention layers: \"{}\" is no layer; expected all, even, odd or numbers below {} such as "
      "0,3,8-11",
      text, layers);
  return number;
}

// Which of the layers `text` names.
std::vector<bool> chosen_layers(std::string_view text, std::int64_t layers) {
  std::vector<bool> chosen(static_cast<std::size_t>(layers), text == "all");
  if (text == "all") return chosen;
  if (text == "even" || text == "odd") {
    for (std::size_t i = text == "odd" ? 1 : 0; i < chosen.size(); i += 2) chosen[i] = true;
    return chosen;
  }
  do {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const std::int64_t first = layer_number(part.substr(0, dash), layers);
    const std::int64_t last =
        dash == std::string_view::npos ? first : layer_number(part.substr(dash + 1), layers);
    for (std::int64_t i = first; i <= last; ++i) chosen[static_cast<std::size_t>(i)] = true;
  } while (!text.empty());
  return chosen;
}

// The layer's own entry with everything that the section around it says.
LayerPatternConfig entry_of(const AttentionConfig& section, std::size_t layer) {
  LayerPatternConfig entry = section.pattern[layer % section.pattern.size()];
  const bool own_window = entry.window.has_value();
  const auto path_window = [&](std::int64_t shared) {
    return own_window || shared == 0 ? entry.window.value_or(section.window) : shared;
  };
  if (!entry.sa_window) entry.sa_window = path_window(section.sa_window);
  if (!entry.swa_window) entry.swa_window = path_window(section.swa_window);
  if (!own_window) entry.window = section.window;
  if (!entry.band) entry.band = section.band;
  if (!entry.budget) entry.budget = section.budget;
  if (!entry.moba_block) entry.moba_block = own_window ? 0 : section.moba_block;
  if (!entry.moba_topk) entry.moba_topk = section.moba_topk;
  if (!entry.gate) entry.gate = section.gate;
  return entry;
}

void require_pattern(const std::string& pattern) {
  const std::vector<std::string>& known = pattern_names();
  if (std::find(known.begin(), known.end(), pattern) != known.end()) return;
  const std::string nearest = nearest_name(pattern, known);
  fail(ErrorKind::Config, "attention \"{}\": unknown pattern{}; known are {}", pattern,
       nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest), list_patterns());
}

void replace(LayerPatternConfig& entry, const AttentionOverride& attention) {
  if (!attention.pattern.empty()) {
    require(attention.pattern != "sa_swa" || entry.pattern == "sa_swa", ErrorKind::Config,
            "attention sa_swa needs gates, which a layer trained with \"{}\" does not have",
            entry.pattern);
    entry.pattern = attention.pattern;
  }
  if (attention.window) {
    entry.window = entry.sa_window = entry.swa_window = attention.window;
    entry.moba_block = 0;
  }
  if (attention.band) entry.band = attention.band;
  if (attention.budget) entry.budget = attention.budget;
  if (attention.moba_block) entry.moba_block = attention.moba_block;
  if (attention.moba_topk) entry.moba_topk = attention.moba_topk;
}

std::string describe(const AttentionPattern& pattern) {
  if (pattern.kind == AttentionKind::Full) return "full";
  if (pattern.kind == AttentionKind::Moba) {
    return fmt::format("moba block {} top {}", pattern.block, pattern.top_k);
  }
  std::string text = fmt::format("{} window {}", name_of_enum(pattern.kind), pattern.window);
  if (pattern.kind == AttentionKind::Swa) return text;
  return text + fmt::format(" {} {}{}", name_of_enum(pattern.band), name_of_enum(pattern.budget),
                            pattern.circular ? "" : " clipped");
}

std::string describe(const LayerAttention& layer) {
  if (!layer.gated) return describe(layer.path);
  return fmt::format("{} + {}, gated", describe(layer.path), describe(layer.swa_path));
}

}  // namespace

ModelConfig with_attention(const ModelConfig& config, const AttentionOverride& attention) {
  if (!attention.pattern.empty()) require_pattern(attention.pattern);
  require(attention.window.value_or(1) >= 1, ErrorKind::Config,
          "attention window {}: expected 1 or more", attention.window.value_or(1));
  require(!attention.window || !attention.moba_block, ErrorKind::Config,
          "attention window {} and moba block {}: give one of them; a window is a block times topk",
          attention.window.value_or(0), attention.moba_block.value_or(0));
  require(attention.moba_block.value_or(1) >= 1, ErrorKind::Config,
          "attention moba block {}: expected 1 or more", attention.moba_block.value_or(1));
  ModelConfig result = config;
  const std::vector<bool> chosen = chosen_layers(attention.layers, config.layers);
  result.attention.pattern.clear();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    LayerPatternConfig entry = entry_of(config.attention, i);
    if (chosen[i]) replace(entry, attention);
    result.attention.pattern.push_back(std::move(entry));
  }
  if (attention.circular) result.attention.circular = *attention.circular;
  require_valid(result);
  return result;
}

std::string describe_attention(const ModelConfig& config) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> kinds;
  const std::vector<LayerAttention> layers = resolve_layers(config);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string text = describe(layers[i]);
    auto kind = kinds.begin();
    while (kind != kinds.end() && kind->first != text) ++kind;
    if (kind == kinds.end()) kind = kinds.insert(kind, {text, {}});
    kind->second.push_back(i);
  }
  if (kinds.size() == 1) return kinds[0].first;
  std::string text;
  for (const auto& [kind, numbers] : kinds) {
    text +=
        fmt::format("{}{} in layers {}", text.empty() ? "" : "; ", kind, fmt::join(numbers, ","));
  }
  return text;
}

}  // namespace flywheel

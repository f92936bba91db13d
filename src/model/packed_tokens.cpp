#include "model/packed_tokens.h"

#include "core/error.h"

namespace flywheel {
namespace {

void check_below(std::span<const std::int32_t> values, std::int64_t least, std::int64_t limit,
                 std::string_view what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(values[i] >= least && values[i] < limit, ErrorKind::Data,
            "{} {} (token {} of the micro-batch) is not in [{}, {}): the data does not fit this "
            "model",
            what, values[i], i, least, limit);
  }
}

void check_offsets(std::span<const std::int32_t> offsets, std::int64_t tokens) {
  require(offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == tokens, ErrorKind::Data,
          "sequence offsets must run from 0 to {}, the number of tokens", tokens);
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    require(offsets[i - 1] < offsets[i], ErrorKind::Data, "sequence {} of the micro-batch is empty",
            i - 1);
  }
}

}  // namespace

void check_tokens(const PackedTokens& tokens, const ModelConfig& config,
                  const TransformerLimits& limits) {
  const auto count = static_cast<std::int64_t>(tokens.inputs.size());
  const auto sequences = static_cast<std::int64_t>(tokens.cu_seqlens.size()) - 1;
  const auto rows = static_cast<std::int64_t>(tokens.attention_rows.size());
  require(count > 0 && tokens.targets.size() == tokens.inputs.size() &&
              tokens.positions.size() == tokens.inputs.size(),
          ErrorKind::Data, "a micro-batch of {} inputs has {} targets and {} positions", count,
          tokens.targets.size(), tokens.positions.size());
  require(count <= limits.max_tokens && sequences <= limits.max_sequences, ErrorKind::Data,
          "a micro-batch of {} tokens in {} sequences; the model has room for {} in {}", count,
          sequences, limits.max_tokens, limits.max_sequences);
  require(rows <= limits.max_attention_rows && (rows == 0 || is_prefix_consistent(config)),
          ErrorKind::Internal,
          "{} rows of attention share tokens; the model has room for {}, and none with sa", rows,
          limits.max_attention_rows);
  check_offsets(tokens.cu_seqlens, rows > 0 ? rows : count);
  check_below(tokens.attention_rows, 0, count, "attention row");
  check_below(tokens.inputs, 0, config.vocab_size, "token id");
  check_below(tokens.targets, -1, config.vocab_size, "target");
  check_below(tokens.positions, 0, config.max_positions, "position");
}

}  // namespace flywheel

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/transformer_impl.h"

namespace flywheel {
namespace {

void check_slots(std::span<const std::int32_t> slots, std::int64_t count) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    require(slots[i] >= 0 && slots[i] < count, ErrorKind::Internal,
            "slot {} of a key-value cache of {}", slots[i], count);
    const bool again = std::find(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(i),
                                 slots[i]) != slots.begin() + static_cast<std::ptrdiff_t>(i);
    require(!again, ErrorKind::Internal, "slot {} of the key-value cache is named twice", slots[i]);
  }
}

}  // namespace

void Transformer::Impl::begin_prefill(Pass& pass, const PackedTokens& prompts,
                                      std::span<const std::int32_t> slots) {
  check_slots(slots, limits.cache_slots);
  require(slots.size() + 1 == prompts.cu_seqlens.size() && prompts.attention_rows.empty(),
          ErrorKind::Internal, "{} slots for {} prompts that share nothing", slots.size(),
          prompts.cu_seqlens.size() - 1);
  std::vector<std::int32_t> token_slots;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const std::int32_t length = prompts.cu_seqlens[s + 1] - prompts.cu_seqlens[s];
    require(length <= limits.cache_length, ErrorKind::Config,
            "a prompt of {} tokens does not fit a key-value cache of {}", length,
            limits.cache_length);
    cached[static_cast<std::size_t>(slots[s])] = length;
    token_slots.insert(token_slots.end(), static_cast<std::size_t>(length), slots[s]);
  }
  pass.slots = memory.vector(memory.buffers().slots, pass.tokens);
  backend.upload(pass.slots, token_slots.data());
}

Pass Transformer::Impl::begin_decode(std::span<const std::int32_t> tokens,
                                     std::span<const std::int32_t> slots,
                                     DecodeAttention attention) {
  check_slots(slots, limits.cache_slots);
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(count > 0 && tokens.size() == slots.size() && count <= limits.max_tokens,
          ErrorKind::Internal, "{} tokens for {} slots, with room for {}", count, slots.size(),
          limits.max_tokens);
  std::vector<std::int32_t> token_positions;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::int32_t& length = cached[static_cast<std::size_t>(slots[i])];
    require(length > 0 && length < limits.cache_length, ErrorKind::Internal,
            "a token after {} in a slot for {} tokens", length, limits.cache_length);
    require(tokens[i] >= 0 && tokens[i] < config.vocab_size, ErrorKind::Data,
            "token id {} is not in [0, {})", tokens[i], config.vocab_size);
    token_positions.push_back(length++);
  }
  const ModelBuffers& buffers = memory.buffers();
  const TensorView device_positions = memory.vector(buffers.positions, count);
  const TensorView device_slots = memory.vector(buffers.slots, count);
  backend.upload(memory.vector(buffers.ids, count), tokens.data());
  backend.upload(device_positions, token_positions.data());
  backend.upload(device_slots, slots.data());
  return {.backend = backend,
          .memory = memory,
          .tokens = count,
          .positions = device_positions,
          .attention_tokens = count,
          .attention_positions = device_positions,
          .cos = cos,
          .sin = sin,
          .slots = device_slots,
          .decode = true,
          .decode_attention = attention,
          .weights_needed = needed_weights()};
}

void Transformer::prefill(const PackedTokens& prompts, const PermutationDraw& draw,
                          std::span<const std::int32_t> slots, std::span<float> out) {
  require(out.size() == slots.size() * static_cast<std::size_t>(impl_->config.vocab_size),
          ErrorKind::Internal, "room for {} logits of {} prompts", out.size(), slots.size());
  Pass pass = impl_->begin(prompts, draw);
  impl_->begin_prefill(pass, prompts, slots);
  impl_->forward(pass);
  std::vector<std::int64_t> last_rows;
  for (const std::int32_t end : prompts.cu_seqlens.subspan(1)) last_rows.push_back(end - 1);
  impl_->head_logits(pass, last_rows, out.data());
}

void Transformer::decode(std::span<const std::int32_t> tokens, std::span<const std::int32_t> slots,
                         DecodeAttention attention, std::span<float> out) {
  require(out.size() == tokens.size() * static_cast<std::size_t>(impl_->config.vocab_size),
          ErrorKind::Internal, "room for {} logits of {} tokens", out.size(), tokens.size());
  const Pass pass = impl_->begin_decode(tokens, slots, attention);
  impl_->forward(pass);
  std::vector<std::int64_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  impl_->head_logits(pass, rows, out.data());
}

}  // namespace flywheel

#include "model/activations.h"

#include <algorithm>

#include "core/error.h"
#include "core/float16.h"
#include "model/activation_planner.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

// Rows of logits at a time: equal chunks of at most 128 MiB.
std::int64_t choose_loss_chunk(const ModelConfig& config, const TransformerLimits& limits) {
  if (limits.loss_chunk > 0) return std::min(limits.loss_chunk, limits.max_tokens);
  constexpr std::int64_t kBytes = std::int64_t{128} << 20;
  const std::int64_t row = padded_vocab_size(config) * size_of(activation_type(limits));
  const std::int64_t most = std::max<std::int64_t>(1, kBytes / row);
  const std::int64_t chunks = (limits.max_tokens + most - 1) / most;
  return (limits.max_tokens + chunks - 1) / chunks;
}

}  // namespace

ActivationMemory::ActivationMemory(const ModelConfig& config, const TransformerLimits& limits)
    : loss_chunk_(choose_loss_chunk(config, limits)),
      cache_slots_(limits.cache_slots),
      cache_length_(limits.cache_length) {
  buffers_ = ActivationPlanner(config, limits, loss_chunk_, kept_, workspace_).plan();
  kept_.place();
  workspace_.place();
}

void ActivationMemory::allocate(Backend& backend) {
  device_ = backend.device();
  kept_memory_ = backend.allocate(kept_.bytes(), "activations");
  workspace_memory_ = backend.allocate(workspace_.bytes(), "workspace");
}

std::vector<MemoryLine> ActivationMemory::lines() const {
  std::vector<MemoryLine> lines;
  for (const MemoryPlan::Buffer& buffer : kept_.buffers()) {
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const MemoryLine& l) { return l.name == buffer.name; });
    if (line == lines.end()) line = lines.insert(line, {buffer.name, 0});
    line->bytes += buffer.bytes;
  }
  lines.push_back({"workspace", workspace_.bytes()});
  return lines;
}

void* ActivationMemory::data(const Buffer& buffer) const {
  if (!buffer) return nullptr;
  const auto& memory = buffer.workspace ? workspace_memory_ : kept_memory_;
  const auto& plan = buffer.workspace ? workspace_ : kept_;
  return memory->data() + plan.buffer(buffer.number).offset;
}

TensorView ActivationMemory::vector(const Buffer& buffer, std::int64_t tokens) const {
  return {data(buffer), buffer.dtype, Shape{tokens}, device_};
}

TensorView ActivationMemory::matrix(const Buffer& buffer, std::int64_t tokens) const {
  return {data(buffer), buffer.dtype, Shape{tokens, buffer.width}, device_};
}

TensorView ActivationMemory::columns(const Buffer& buffer, std::int64_t tokens) const {
  return {data(buffer), buffer.dtype, Shape{buffer.width, tokens}, device_};
}

TensorView ActivationMemory::heads(const Buffer& buffer, std::int64_t tokens,
                                   std::int64_t heads) const {
  return {data(buffer), buffer.dtype, Shape{tokens, heads, buffer.width / heads}, device_};
}

TensorView ActivationMemory::heads_first(const Buffer& buffer, std::int64_t tokens,
                                         std::int64_t heads) const {
  return TensorView::heads_first(data(buffer), buffer.dtype, tokens, heads, buffer.width / heads,
                                 device_);
}

TensorView ActivationMemory::cache(const Buffer& buffer, std::int64_t heads) const {
  return {data(buffer), buffer.dtype,
          Shape{cache_slots_, heads, cache_length_, buffer.width / heads}, device_};
}

void read_rows(Backend& backend, const TensorView& matrix, std::int64_t columns, float* out) {
  const std::int64_t width = matrix.shape[1];
  if (matrix.dtype == DType::F32) {
    require(columns == width, ErrorKind::Internal, "{} of {} columns are read", columns, width);
    return backend.download(out, matrix);
  }
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(matrix.elements()));
  backend.download(bits.data(), matrix);
  for (std::int64_t row = 0; row < matrix.shape[0]; ++row) {
    const auto from = bits.begin() + row * width;
    std::transform(from, from + columns, out + row * columns, bf16_to_float);
  }
}

}  // namespace flywheel

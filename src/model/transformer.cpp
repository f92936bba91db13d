#include "model/transformer.h"

#include <algorithm>

#include "core/error.h"
#include "model/layer.h"
#include "model/layer_plans.h"
#include "model/packed_tokens.h"
#include "model/rope.h"

namespace flywheel {
namespace {

std::int64_t rope_elements(const ModelConfig& config) {
  return config.position == PositionKind::Rope ? config.max_positions * config.head_dim / 2 : 0;
}

std::int64_t slab_bytes(std::int64_t elements) {
  return elements * size_of(DType::F32);
}

ModelConfig checked(const ModelConfig& config, const TransformerLimits& limits) {
  require_valid(config);
  require(limits.max_tokens > 0 && limits.max_sequences > 0, ErrorKind::Config,
          "a micro-batch needs room for at least one token and one sequence, not {} and {}",
          limits.max_tokens, limits.max_sequences);
  return with_defaults(config);
}

}  // namespace

struct Transformer::Impl {
  Impl(const ModelConfig& model_config, Backend& device, const TransformerLimits& sizes);

  ParameterSlabs slabs() const {
    return {parameter_memory->data(), gradient_memory ? gradient_memory->data() : nullptr,
            backend.device()};
  }
  void list_parameters();
  void build_layers();
  void upload_rope();

  Pass begin(const PackedTokens& tokens, const PermutationDraw& draw);
  void forward(const Pass& pass);
  // Losses and, if gradient_scale is not 0, the gradients of head and final norm's output.
  void head_loss(const Pass& pass, float gradient_scale, float z_loss);
  double sum_losses(const Pass& pass, std::span<float> losses);
  void backward(const Pass& pass);
  void recompute_before_mlp(const Pass& pass, const Layer& layer);
  void head_logits(const Pass& pass, std::span<const std::int64_t> rows, float* out);

  const ModelConfig config;
  Backend& backend;
  const TransformerLimits limits;
  const ParameterLayout layout;
  ActivationMemory memory;
  LayerPlans plans;
  std::unique_ptr<DeviceMemory> parameter_memory, gradient_memory, rope_memory;
  TensorView cos, sin;
  std::vector<Parameter> parameters;
  TensorView embedding, dembedding, positions, dpositions, head, dhead;
  std::vector<Layer> layers;
  Norm final_norm;
  std::vector<float> host_losses;
};

Transformer::Impl::Impl(const ModelConfig& model_config, Backend& device,
                        const TransformerLimits& sizes)
    : config(checked(model_config, sizes)),
      backend(device),
      limits(sizes),
      layout(lay_out_parameters(config)),
      memory(config, limits),
      plans(resolve_layers(config), backend, limits),
      host_losses(static_cast<std::size_t>(limits.max_tokens)) {
  parameter_memory = backend.allocate(slab_bytes(layout.elements), "parameters");
  if (limits.training) {
    gradient_memory = backend.allocate(slab_bytes(layout.elements), "gradients");
  }
  memory.allocate(backend);
  list_parameters();
  build_layers();
  if (config.position == PositionKind::Rope) upload_rope();
}

void Transformer::Impl::list_parameters() {
  const ParameterSlabs memories = slabs();
  for (const ParameterSpec& spec : layout.specs) {
    parameters.push_back({spec.name, spec.slot.shape, memories.value(spec.slot),
                          memories.gradient(spec.slot), spec.decay});
  }
}

void Transformer::Impl::build_layers() {
  const ParameterSlabs memories = slabs();
  embedding = memories.value(layout.embedding);
  dembedding = memories.gradient(layout.embedding);
  positions = memories.value(layout.position_embedding);
  dpositions = memories.gradient(layout.position_embedding);
  head = memories.value(layout.head);
  dhead = memories.gradient(layout.head);
  const auto norm = [&](const NormSlot& slot) {
    return Norm(config.norm, config.norm_eps, slot, memories);
  };
  final_norm = norm(layout.final_norm);
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlots& slots = layout.layers[i];
    layers.push_back({.buffers = memory.buffers().layers[i],
                      .attention_norm = norm(slots.attention_norm),
                      .attention = AttentionBranch(config, slots, memories, plans.of(i)),
                      .mlp_norm = norm(slots.mlp_norm),
                      .mlp = MlpBranch(config, slots, memories)});
  }
}

void Transformer::Impl::upload_rope() {
  const std::int64_t half = config.head_dim / 2;
  const std::int64_t bytes = slab_bytes(rope_elements(config));
  rope_memory = backend.allocate(2 * bytes, "rope tables");
  const Shape shape{config.max_positions, half};
  cos = TensorView(rope_memory->data(), DType::F32, shape, backend.device());
  sin = TensorView(rope_memory->data() + bytes, DType::F32, shape, backend.device());
  const RopeTable table = make_rope_table(config);
  backend.upload(cos, table.cos.data());
  backend.upload(sin, table.sin.data());
}

Pass Transformer::Impl::begin(const PackedTokens& tokens, const PermutationDraw& draw) {
  check_tokens(tokens, config, limits);
  const auto count = static_cast<std::int64_t>(tokens.inputs.size());
  const ModelBuffers& buffers = memory.buffers();
  plans.prepare(backend, tokens.cu_seqlens, draw, tokens.first_sequence);
  backend.upload(memory.vector(buffers.ids, count), tokens.inputs.data());
  backend.upload(memory.vector(buffers.targets, count), tokens.targets.data());
  backend.upload(memory.vector(buffers.positions, count), tokens.positions.data());
  return {.backend = backend,
          .memory = memory,
          .tokens = count,
          .positions = memory.vector(buffers.positions, count),
          .cos = cos,
          .sin = sin};
}

void Transformer::Impl::forward(const Pass& pass) {
  const ModelBuffers& buffers = memory.buffers();
  const TensorView branch = pass.matrix(buffers.branch);
  TensorView x = pass.matrix(layers[0].buffers.x);
  ops::embedding_forward(backend, {.out = x,
                                   .ids = memory.vector(buffers.ids, pass.tokens),
                                   .table = embedding,
                                   .position_table = positions,
                                   .positions = pass.positions});
  const NormBuffers& first = layers[0].buffers.attention_norm;
  layers[0].attention_norm.forward(backend, pass.matrix(first.out), pass.statistics(first), x);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const TensorView x_mid = pass.matrix(layer.buffers.x_mid);
    layer.attention.forward(pass, layer.buffers);
    layer.attention.project(pass, layer.buffers);
    const NormBuffers& middle = layer.buffers.mlp_norm;
    layer.mlp_norm.add_forward(backend, x_mid, pass.matrix(middle.out), pass.statistics(middle),
                               branch, x);
    layer.mlp.forward(pass, layer.buffers);
    layer.mlp.project(pass, layer.buffers);
    const bool last = i + 1 == layers.size();
    const Norm& next_norm = last ? final_norm : layers[i + 1].attention_norm;
    const NormBuffers& next = last ? buffers.final_norm : layers[i + 1].buffers.attention_norm;
    x = pass.matrix(last ? buffers.x_final : layers[i + 1].buffers.x);
    next_norm.add_forward(backend, x, pass.matrix(next.out), pass.statistics(next), branch, x_mid);
  }
}

void Transformer::Impl::head_loss(const Pass& pass, float gradient_scale, float z_loss) {
  const ModelBuffers& buffers = memory.buffers();
  const TensorView input = pass.matrix(buffers.final_norm.out);
  for (std::int64_t begin = 0; begin < pass.tokens; begin += memory.loss_chunk()) {
    const std::int64_t end = std::min(begin + memory.loss_chunk(), pass.tokens);
    const TensorView logits = memory.matrix(buffers.logits, end - begin);
    const TensorView rows = input.rows(begin, end);
    ops::matmul(backend, {.out = logits, .a = rows, .b = head, .bias = {}, .transpose_b = true});
    ops::cross_entropy(backend,
                       {.losses = memory.vector(buffers.losses, pass.tokens).rows(begin, end),
                        .logits = logits,
                        .targets = memory.vector(buffers.targets, pass.tokens).rows(begin, end),
                        .vocab_size = config.vocab_size,
                        .gradient_scale = gradient_scale,
                        .z_loss = z_loss});
    if (gradient_scale == 0) continue;
    ops::matmul(
        backend,
        {.out = pass.matrix(buffers.dnorm).rows(begin, end), .a = logits, .b = head, .bias = {}});
    ops::matmul(backend, {.out = dhead,
                          .a = logits,
                          .b = rows,
                          .bias = {},
                          .transpose_a = true,
                          .accumulate = true});
  }
}

double Transformer::Impl::sum_losses(const Pass& pass, std::span<float> losses) {
  backend.download(losses.data(), memory.vector(memory.buffers().losses, pass.tokens));
  double sum = 0;
  for (const float loss : losses) sum += static_cast<double>(loss);
  return sum;
}

// Brings back what the policy did not keep, up to the MLP's activation.
void Transformer::Impl::recompute_before_mlp(const Pass& pass, const Layer& layer) {
  const LayerBuffers& buffers = layer.buffers;
  const NormBuffers& norm = buffers.attention_norm;
  const NormBuffers& middle = buffers.mlp_norm;
  const TensorView x = pass.matrix(buffers.x);
  const TensorView x_mid = pass.matrix(buffers.x_mid);
  if (limits.recompute == RecomputePolicy::Layer) {
    layer.attention_norm.forward(backend, pass.matrix(norm.out), pass.statistics(norm), x);
    layer.attention.forward(pass, buffers);
    layer.attention.project(pass, buffers);
    layer.mlp_norm.add_forward(backend, x_mid, pass.matrix(middle.out), pass.statistics(middle),
                               pass.matrix(pass.buffers().branch), x);
  } else {
    layer.mlp_norm.forward(backend, pass.matrix(middle.out), pass.statistics(middle), x_mid);
  }
  layer.mlp.forward(pass, buffers);
}

void Transformer::Impl::backward(const Pass& pass) {
  const ModelBuffers& shared = memory.buffers();
  const TensorView dx = pass.matrix(shared.dx);
  const TensorView dnorm = pass.matrix(shared.dnorm);
  final_norm.backward(backend, dx, dnorm, pass.matrix(shared.x_final),
                      pass.statistics(shared.final_norm), false);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const LayerBuffers& buffers = layer->buffers;
    if (limits.recompute != RecomputePolicy::None) recompute_before_mlp(pass, *layer);
    layer->mlp.backward(pass, buffers);
    layer->mlp_norm.backward(backend, dx, dnorm, pass.matrix(buffers.x_mid),
                             pass.statistics(buffers.mlp_norm), true);
    const NormBuffers& norm = buffers.attention_norm;
    const TensorView x = pass.matrix(buffers.x);
    if (limits.recompute == RecomputePolicy::Mlp) {
      layer->attention_norm.forward(backend, pass.matrix(norm.out), pass.statistics(norm), x);
    }
    layer->attention.backward(pass, buffers);
    layer->attention_norm.backward(backend, dx, dnorm, x, pass.statistics(norm), true);
  }
  ops::embedding_backward(backend, {.dtable = dembedding,
                                    .dposition_table = dpositions,
                                    .dout = dx,
                                    .ids = memory.vector(shared.ids, pass.tokens),
                                    .positions = pass.positions});
}

void Transformer::Impl::head_logits(const Pass& pass, std::span<const std::int64_t> rows,
                                    float* out) {
  const ModelBuffers& buffers = memory.buffers();
  const TensorView input = pass.matrix(buffers.final_norm.out);
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorView vocabulary = head.rows(0, config.vocab_size);
  for (std::int64_t begin = 0; begin < count; begin += memory.loss_chunk()) {
    const std::int64_t chunk = std::min(memory.loss_chunk(), count - begin);
    const TensorView gathered = memory.matrix(buffers.gathered, chunk);
    for (std::int64_t i = 0; i < chunk; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(begin + i)];
      require(0 <= row && row < pass.tokens, ErrorKind::Internal,
              "logits of row {} of a pass of {} tokens", row, pass.tokens);
      ops::copy(backend, {.out = gathered.rows(i, i + 1), .x = input.rows(row, row + 1)});
    }
    const TensorView logits(memory.matrix(buffers.logits, chunk).data, DType::F32,
                            {chunk, config.vocab_size}, backend.device());
    ops::matmul(backend,
                {.out = logits, .a = gathered, .b = vocabulary, .bias = {}, .transpose_b = true});
    backend.download(out + begin * config.vocab_size, logits);
  }
}

Transformer::Transformer(const ModelConfig& config, Backend& backend,
                         const TransformerLimits& limits)
    : impl_(std::make_unique<Impl>(config, backend, limits)) {}
Transformer::~Transformer() = default;

const ModelConfig& Transformer::config() const {
  return impl_->config;
}

std::span<const Parameter> Transformer::parameters() const {
  return impl_->parameters;
}

void Transformer::initialize(std::uint64_t seed) {
  const ParameterSlabs slabs = impl_->slabs();
  for (const ParameterSpec& spec : impl_->layout.specs) {
    initialize_parameter(impl_->backend, spec, slabs.value(spec.slot), seed);
  }
}

void Transformer::zero_gradients() {
  const TensorView all(impl_->slabs().gradients, DType::F32, {impl_->layout.elements},
                       impl_->backend.device());
  ops::fill(impl_->backend, {.x = all, .value = 0});
}

double Transformer::forward_backward(const PackedTokens& tokens, const PermutationDraw& draw,
                                     double loss_scale, double z_loss) {
  require(impl_->limits.training && loss_scale > 0, ErrorKind::Internal,
          "forward_backward needs a training model and a positive loss scale, not {}", loss_scale);
  const Pass pass = impl_->begin(tokens, draw);
  impl_->forward(pass);
  impl_->head_loss(pass, static_cast<float>(loss_scale), static_cast<float>(z_loss));
  impl_->backward(pass);
  return impl_->sum_losses(pass, std::span(impl_->host_losses).first(tokens.inputs.size()));
}

double Transformer::forward(const PackedTokens& tokens, const PermutationDraw& draw,
                            std::span<float> losses) {
  require(losses.size() == tokens.inputs.size(), ErrorKind::Internal,
          "{} losses wanted of {} tokens", losses.size(), tokens.inputs.size());
  const Pass pass = impl_->begin(tokens, draw);
  impl_->forward(pass);
  impl_->head_loss(pass, 0, 0);
  return impl_->sum_losses(pass, losses);
}

void Transformer::logits(const PackedTokens& tokens, const PermutationDraw& draw,
                         std::span<const std::int64_t> rows, std::span<float> out) {
  require(out.size() == rows.size() * static_cast<std::size_t>(impl_->config.vocab_size),
          ErrorKind::Internal, "room for {} logits, not for {} rows of {}", out.size(), rows.size(),
          impl_->config.vocab_size);
  const Pass pass = impl_->begin(tokens, draw);
  impl_->forward(pass);
  impl_->head_logits(pass, rows, out.data());
}

std::vector<MemoryLine> Transformer::memory(const ModelConfig& config,
                                            const TransformerLimits& limits) {
  const ModelConfig resolved = checked(config, limits);
  const std::int64_t slab = slab_bytes(lay_out_parameters(resolved).elements);
  std::vector<MemoryLine> lines{{"parameters", slab}};
  if (limits.training) lines.push_back({"gradients", slab});
  for (const MemoryLine& line : ActivationMemory(resolved, limits).lines()) lines.push_back(line);
  if (const std::int64_t elements = rope_elements(resolved); elements > 0) {
    lines.push_back({"rope tables", 2 * slab_bytes(elements)});
  }
  return lines;
}

}  // namespace flywheel

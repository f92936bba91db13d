#include "model/transformer.h"

#include "core/error.h"
#include "model/rope.h"
#include "model/transformer_impl.h"

namespace flywheel {
namespace {

std::int64_t rope_elements(const ModelConfig& config) {
  return config.position == PositionKind::Rope ? config.max_positions * config.head_dim / 2 : 0;
}

std::int64_t rounded_bytes(const ParameterLayout& layout) {
  return layout.bytes / 2;
}

ModelConfig checked(const ModelConfig& config, const TransformerLimits& limits) {
  require_valid(config);
  require(limits.max_tokens > 0 && limits.max_sequences > 0, ErrorKind::Config,
          "a micro-batch needs room for at least one token and one sequence, not {} and {}",
          limits.max_tokens, limits.max_sequences);
  require((limits.cache_slots > 0) == (limits.cache_length > 0) &&
              limits.cache_length <= config.max_positions,
          ErrorKind::Config,
          "a key-value cache for {} sequences of {} tokens; expected up to {} tokens each",
          limits.cache_slots, limits.cache_length, config.max_positions);
  require(config.experts.count == 0 || !limits.training, ErrorKind::Config,
          "model.experts.count: {}: a mixture of experts cannot be trained yet; expected 0",
          config.experts.count);
  require(limits.max_attention_rows == 0 || !limits.training, ErrorKind::Internal,
          "sequences that share tokens are for inference");
  require(!limits.streamed || !limits.training, ErrorKind::Internal,
          "weights are streamed for inference");
  require(limits.weights == DType::F32 || !limits.training, ErrorKind::Config,
          "weights are trained in f32, not in {}", name_of(limits.weights));
  require(limits.precision == Precision::Float32 || limits.training, ErrorKind::Config,
          "a model that is not trained computes in float32, not in bfloat16");
  return with_defaults(config);
}

// How the matrices lie in memory.
DType kept_type(const ModelConfig& config, const Backend& backend, DType weights) {
  const bool interleaved = weights == DType::Q8_0 && backend.interleaves_weights();
  return interleaved && can_interleave(config) ? DType::Q8_0x16 : weights;
}

}  // namespace

Transformer::Impl::Impl(const ModelConfig& model_config, Backend& device,
                        const TransformerLimits& sizes)
    : config(checked(model_config, sizes)),
      backend(device),
      limits(sizes),
      layout(lay_out_parameters(config, kept_type(config, backend, limits.weights))),
      memory(config, limits),
      plans(resolve_layers(config), backend, limits),
      host_losses(static_cast<std::size_t>(limits.max_tokens)),
      cached(static_cast<std::size_t>(limits.cache_slots)) {
  parameter_memory = limits.streamed ? backend.reserve(layout.bytes, "parameters")
                                     : backend.allocate(layout.bytes, "parameters");
  if (limits.training) {
    gradient_memory = backend.allocate(layout.bytes, "gradients");
  }
  if (limits.precision == Precision::Bfloat16) {
    require(backend.device() != DeviceKind::Cpu, ErrorKind::Config,
            "the CPU backend computes in float32, not in bfloat16; take float32 or a GPU");
    rounded_memory = backend.allocate(rounded_bytes(layout), "bf16 weights");
  }
  memory.allocate(backend);
  list_parameters();
  list_buckets();
  build_layers();
  if (config.position == PositionKind::Rope) upload_rope();
}

void Transformer::Impl::list_parameters() {
  const ParameterSlabs memories = slabs();
  for (const ParameterSpec& spec : layout.specs) {
    parameters.push_back({spec.name, spec.slot.shape, memories.value(spec.slot),
                          memories.gradient(spec.slot), memories.copy(spec.slot), spec.decay,
                          spec.layer, spec.expert});
  }
}

void Transformer::Impl::list_buckets() {
  std::int64_t begin = 0;
  for (const std::int64_t bytes : layout.bucket_ends) {
    const std::int64_t end = bytes / size_of(DType::F32);
    buckets.push_back({begin, end});
    begin = end;
  }
}

void Transformer::Impl::build_layers() {
  const ParameterSlabs memories = slabs();
  embedding = memories.weight(layout.embedding);
  dembedding = memories.gradient(layout.embedding);
  positions = memories.weight(layout.position_embedding);
  dpositions = memories.gradient(layout.position_embedding);
  head = memories.weight(layout.head);
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
  const std::int64_t bytes = rope_elements(config) * size_of(DType::F32);
  rope_memory = backend.allocate(2 * bytes, "rope tables");
  const Shape shape{config.max_positions, half};
  cos = TensorView(rope_memory->data(), DType::F32, shape, backend.device());
  sin = TensorView(rope_memory->data() + bytes, DType::F32, shape, backend.device());
  const RopeTable table = make_rope_table(config);
  backend.upload(cos, table.cos.data());
  backend.upload(sin, table.sin.data());
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
  require(impl_->limits.weights == DType::F32, ErrorKind::Internal,
          "initial weights are float32, not {}", name_of(impl_->limits.weights));
  const ParameterSlabs slabs = impl_->slabs();
  for (const ParameterSpec& spec : impl_->layout.specs) {
    initialize_parameter(impl_->backend, spec, slabs.value(spec.slot), seed);
  }
  round_weights(seed, 0);
}

void Transformer::round_weights(std::uint64_t seed, std::int64_t update) {
  for (const Parameter& parameter : impl_->parameters) {
    if (!parameter.rounded) continue;
    const Shape flat{parameter.shape.elements()};
    ops::round_weights(impl_->backend, {.out = parameter.rounded.reshaped(flat),
                                        .x = parameter.value.reshaped(flat),
                                        .seed = rounding_seed(seed, parameter.name),
                                        .step = update});
  }
}

TensorView Transformer::Impl::slab(std::byte* begin) const {
  return {begin, DType::F32, {layout.bytes / size_of(DType::F32)}, backend.device()};
}

TensorView Transformer::parameter_slab() const {
  return impl_->slab(impl_->slabs().values);
}

TensorView Transformer::gradient_slab() const {
  return impl_->slab(impl_->slabs().gradients);
}

TensorView Transformer::rounded_slab() const {
  if (!impl_->rounded_memory) return {};
  const std::int64_t elements = impl_->layout.bytes / size_of(DType::F32);
  return {impl_->rounded_memory->data(), DType::BF16, {elements}, impl_->backend.device()};
}

std::span<const SlabRange> Transformer::buckets() const {
  return impl_->buckets;
}

void Transformer::stream_weights(WeightsNeeded needed) {
  require(impl_->limits.streamed, ErrorKind::Internal, "this model's weights are in memory");
  impl_->weights_needed = std::move(needed);
}

const WeightsNeeded* Transformer::Impl::needed_weights() const {
  if (!limits.streamed) return nullptr;
  require(weights_needed != nullptr, ErrorKind::Internal, "nobody brings the streamed weights");
  return &weights_needed;
}

void Transformer::zero_gradients() {
  ops::fill(impl_->backend, {.x = gradient_slab(), .value = 0});
}

Pass Transformer::Impl::queue_gradients(const PackedTokens& tokens, const PermutationDraw& draw,
                                        double loss_scale, double z_loss,
                                        const BucketReady& ready) {
  require(limits.training && loss_scale > 0, ErrorKind::Internal,
          "forward_backward needs a training model and a positive loss scale, not {}", loss_scale);
  const Pass pass = begin(tokens, draw);
  const auto queue = [&] {
    forward(pass);
    head_loss(pass, static_cast<float>(loss_scale), static_cast<float>(z_loss));
    backward(pass, ready);
  };
  ready ? queue() : backend.queue_pass(queue);  // ranks meet beside the backend
  return pass;
}

void Transformer::queue_forward_backward(const PackedTokens& tokens, const PermutationDraw& draw,
                                         double loss_scale, double z_loss, const LossSum& loss_sum,
                                         const BucketReady& ready) {
  const Pass pass = impl_->queue_gradients(tokens, draw, loss_scale, z_loss, ready);
  const ActivationMemory& memory = impl_->memory;
  ops::sum(impl_->backend, {.out = loss_sum.out,
                            .x = memory.vector(memory.buffers().losses, pass.tokens),
                            .accumulate = loss_sum.accumulate});
}

double Transformer::forward_backward(const PackedTokens& tokens, const PermutationDraw& draw,
                                     double loss_scale, double z_loss) {
  const Pass pass = impl_->queue_gradients(tokens, draw, loss_scale, z_loss);
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

void Transformer::score(const PackedTokens& tokens, const PermutationDraw& draw,
                        std::span<const std::int64_t> rows, std::span<const std::int32_t> targets,
                        std::span<float> losses, std::span<std::int32_t> most_likely) {
  require(targets.size() == rows.size() && losses.size() == rows.size() &&
              most_likely.size() == rows.size(),
          ErrorKind::Internal, "{} rows to score have {} targets, room for {} losses and {} tokens",
          rows.size(), targets.size(), losses.size(), most_likely.size());
  const Pass pass = impl_->begin(tokens, draw);
  impl_->forward(pass);
  impl_->head_score(pass, rows, targets, losses, most_likely);
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

void Transformer::visit_gates(const PackedTokens& tokens, const PermutationDraw& draw,
                              const GateVisitor& visit) {
  const Pass pass = impl_->begin(tokens, draw);
  impl_->forward(pass, visit);
}

std::vector<MemoryLine> Transformer::memory(const ModelConfig& config,
                                            const TransformerLimits& limits) {
  const ModelConfig resolved = checked(config, limits);
  const ParameterLayout layout = lay_out_parameters(resolved, limits.weights);
  std::vector<MemoryLine> lines{{"parameters", layout.bytes}};
  if (limits.training) lines.push_back({"gradients", layout.bytes});
  if (limits.precision == Precision::Bfloat16) {
    lines.push_back({"bf16 weights", rounded_bytes(layout)});
  }
  for (const MemoryLine& line : ActivationMemory(resolved, limits).lines()) lines.push_back(line);
  if (const std::int64_t elements = rope_elements(resolved); elements > 0) {
    lines.push_back({"rope tables", 2 * elements * size_of(DType::F32)});
  }
  return lines;
}

}  // namespace flywheel

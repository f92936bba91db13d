#include <algorithm>

#include "core/error.h"
#include "model/packed_tokens.h"
#include "model/transformer_impl.h"

namespace flywheel {

Pass Transformer::Impl::begin(const PackedTokens& tokens, const PermutationDraw& draw) {
  check_tokens(tokens, config, limits);
  const auto count = static_cast<std::int64_t>(tokens.inputs.size());
  const ModelBuffers& buffers = memory.buffers();
  plans.prepare(backend, tokens.cu_seqlens, draw, tokens.first_sequence);
  backend.upload(memory.vector(buffers.ids, count), tokens.inputs.data());
  backend.upload(memory.vector(buffers.targets, count), tokens.targets.data());
  backend.upload(memory.vector(buffers.positions, count), tokens.positions.data());
  Pass pass{.backend = backend,
            .memory = memory,
            .tokens = count,
            .positions = memory.vector(buffers.positions, count),
            .attention_tokens = count,
            .attention_positions = memory.vector(buffers.positions, count),
            .cos = cos,
            .sin = sin,
            .weights_needed = needed_weights()};
  if (!tokens.attention_rows.empty()) share_tokens(pass, tokens);
  return pass;
}

void Transformer::Impl::share_tokens(Pass& pass, const PackedTokens& tokens) {
  std::vector<std::int32_t> row_positions;
  std::vector<std::int32_t> token_rows(tokens.inputs.size(), -1);
  for (const std::int32_t token : tokens.attention_rows) {
    const auto t = static_cast<std::size_t>(token);
    token_rows[t] = static_cast<std::int32_t>(row_positions.size());
    row_positions.push_back(tokens.positions[t]);
  }
  require(std::find(token_rows.begin(), token_rows.end(), -1) == token_rows.end(),
          ErrorKind::Internal, "a token is no row of attention");
  const ModelBuffers& buffers = memory.buffers();
  pass.attention_tokens = std::ssize(tokens.attention_rows);
  pass.attention_positions = memory.vector(buffers.attention_positions, pass.attention_tokens);
  pass.attention_rows = memory.vector(buffers.attention_rows, pass.attention_tokens);
  pass.token_rows = memory.vector(buffers.token_rows, pass.tokens);
  backend.upload(pass.attention_positions, row_positions.data());
  backend.upload(pass.attention_rows, tokens.attention_rows.data());
  backend.upload(pass.token_rows, token_rows.data());
}

void Transformer::Impl::show_gates(const Pass& pass, std::size_t layer, const GateVisitor& visit) {
  if (!layers[layer].attention.gated()) return;
  const TensorView logits = pass.matrix(layers[layer].buffers.gate_logits);
  std::vector<float> host(static_cast<std::size_t>(logits.elements()));
  read_rows(backend, logits, logits.shape[1], host.data());
  visit(static_cast<std::int64_t>(layer), host);
}

void Transformer::Impl::forward(const Pass& pass, const GateVisitor& visit_gates) {
  const ModelBuffers& buffers = memory.buffers();
  const TensorView branch = pass.matrix(buffers.branch);
  TensorView x = pass.matrix(layers[0].buffers.x);
  ops::embedding_forward(backend, {.out = x,
                                   .ids = memory.vector(buffers.ids, pass.tokens),
                                   .table = embedding,
                                   .position_table = positions,
                                   .positions = pass.positions});
  const NormBuffers& first = layers[0].buffers.attention_norm;
  const auto need = [&](std::size_t layer) {
    if (layer == layers.size() || pass.weights_needed == nullptr) return;
    (*pass.weights_needed)(static_cast<std::int64_t>(layer), {});
  };
  need(0);
  layers[0].attention_norm.forward(backend, pass.matrix(first.out), pass.statistics(first), x);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const TensorView x_mid = pass.matrix(layer.buffers.x_mid);
    layer.attention.forward(pass, layer.buffers);
    if (visit_gates) show_gates(pass, i, visit_gates);
    layer.attention.project(pass, layer.buffers);
    const NormBuffers& middle = layer.buffers.mlp_norm;
    layer.mlp_norm.add_forward(backend, x_mid, pass.matrix(middle.out), pass.statistics(middle),
                               branch, x);
    layer.mlp.forward(pass, layer.buffers);
    layer.mlp.project(pass, layer.buffers);
    need(i + 1);
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
                        .most_likely = {},
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

void Transformer::Impl::backward(const Pass& pass, const BucketReady& ready) {
  std::size_t bucket = buckets.size();
  const auto bucket_is_ready = [&] {
    --bucket;
    if (ready) ready(bucket);
  };
  const ModelBuffers& shared = memory.buffers();
  const TensorView dx = pass.matrix(shared.dx);
  const TensorView dnorm = pass.matrix(shared.dnorm);
  final_norm.backward(backend, dx, dnorm, pass.matrix(shared.x_final),
                      pass.statistics(shared.final_norm), false);
  bucket_is_ready();
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
    bucket_is_ready();
  }
  ops::embedding_backward(backend, {.dtable = dembedding,
                                    .dposition_table = dpositions,
                                    .dout = dx,
                                    .ids = memory.vector(shared.ids, pass.tokens),
                                    .positions = pass.positions});
  bucket_is_ready();
}

// The head's input at the given rows, one after another.
TensorView Transformer::Impl::gather(const Pass& pass, std::span<const std::int64_t> rows) {
  const ModelBuffers& buffers = memory.buffers();
  const TensorView input = pass.matrix(buffers.final_norm.out);
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorView gathered = memory.matrix(buffers.gathered, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    require(0 <= row && row < pass.tokens, ErrorKind::Internal,
            "logits of row {} of a pass of {} tokens", row, pass.tokens);
    ops::copy(backend, {.out = gathered.rows(i, i + 1), .x = input.rows(row, row + 1)});
  }
  return gathered;
}

void Transformer::Impl::head_score(const Pass& pass, std::span<const std::int64_t> rows,
                                   std::span<const std::int32_t> targets, std::span<float> losses,
                                   std::span<std::int32_t> most_likely) {
  const ModelBuffers& buffers = memory.buffers();
  const auto most = static_cast<std::size_t>(memory.loss_chunk());
  for (std::size_t begin = 0; begin < rows.size(); begin += most) {
    const std::size_t count = std::min(most, rows.size() - begin);
    const auto chunk = static_cast<std::int64_t>(count);
    const TensorView logits = memory.matrix(buffers.logits, chunk);
    const CrossEntropy args{.losses = memory.vector(buffers.losses, chunk),
                            .most_likely = memory.vector(buffers.most_likely, chunk),
                            .logits = logits,
                            .targets = memory.vector(buffers.targets, chunk),
                            .vocab_size = config.vocab_size};
    backend.upload(args.targets, targets.data() + begin);
    ops::matmul(backend, {.out = logits,
                          .a = gather(pass, rows.subspan(begin, count)),
                          .b = head,
                          .bias = {},
                          .transpose_b = true});
    ops::cross_entropy(backend, args);
    backend.download(losses.data() + begin, args.losses);
    backend.download(most_likely.data() + begin, args.most_likely);
  }
}

void Transformer::Impl::head_logits(const Pass& pass, std::span<const std::int64_t> rows,
                                    float* out) {
  const ModelBuffers& buffers = memory.buffers();
  const auto count = static_cast<std::int64_t>(rows.size());
  // Products of bf16 need aligned rows: they include the padding.
  const bool padded = activation_type(limits) == DType::BF16;
  const TensorView vocabulary = padded ? head : head.rows(0, config.vocab_size);
  for (std::int64_t begin = 0; begin < count; begin += memory.loss_chunk()) {
    const std::int64_t chunk = std::min(memory.loss_chunk(), count - begin);
    const TensorView gathered = gather(
        pass, rows.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(chunk)));
    TensorView logits = memory.matrix(buffers.logits, chunk);
    if (!padded) logits = {logits.data, DType::F32, {chunk, config.vocab_size}, backend.device()};
    ops::matmul(backend, {.out = logits,
                          .a = gathered,
                          .b = vocabulary,
                          .bias = {},
                          .transpose_b = true,
                          .few_rows = pass.decode});
    read_rows(backend, logits, config.vocab_size, out + begin * config.vocab_size);
  }
}

}  // namespace flywheel

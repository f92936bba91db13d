#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backend/ops.h"
#include "core/error.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

// Where a parameter lies in the slab.
Part elements_of(const Parameter& parameter, const TensorView& slab) {
  const std::int64_t begin = (parameter.value.data - slab.data) / size_of(DType::F32);
  return {begin, begin + parameter.shape.elements()};
}

TensorView rows(const TensorView& slab, const Part& elements) {
  return slab.rows(elements.begin, elements.end);
}

}  // namespace

Optimizer::Optimizer(Backend& backend, const Transformer& model, Communicator& ranks,
                     const OptimizerConfig& config, bool sharded, std::uint64_t seed)
    : backend_(backend),
      ranks_(ranks),
      sharded_(sharded && ranks.ranks() > 1),
      parameters_(model.parameters()),
      config_(config),
      seed_(seed),
      values_(model.parameter_slab()),
      gradients_(model.gradient_slab()),
      copies_(model.rounded_slab()) {
  divide(model.buckets());
  const auto count = static_cast<std::int64_t>(parameters_.size()) + 1;
  const std::int64_t elements = buckets_.back().moments + buckets_.back().own.elements();
  moments_memory_ = backend.allocate(2 * elements * size_of(DType::F32), "optimizer moments");
  sums_memory_ = backend.allocate(count * size_of(DType::F64), "sums of a step");
  clip_memory_ = backend.allocate(size_of(DType::F32), "clip factor");
  const DeviceKind device = backend.device();
  const TensorView moments(moments_memory_->data(), DType::F32, {2 * elements}, device);
  m_ = moments.rows(0, elements);
  v_ = moments.rows(elements, 2 * elements);
  sums_ = TensorView(sums_memory_->data(), DType::F64, {count}, device);
  clip_ = TensorView(clip_memory_->data(), DType::F32, {1}, device);
  host_sums_.resize(static_cast<std::size_t>(count));
}

void Optimizer::divide(std::span<const SlabRange> buckets) {
  std::int64_t moments = 0;
  for (const auto [begin, end] : buckets) {
    Bucket bucket{.all = {begin, end}, .own = {begin, end}, .moments = moments};
    if (sharded_) {
      const Part part = part_of(end - begin, ranks_.rank(), ranks_.ranks());
      bucket.own = {begin + part.begin, begin + part.end};
    }
    moments += bucket.own.elements();
    list_pieces(bucket);
    buckets_.push_back(bucket);
  }
}

void Optimizer::list_pieces(const Bucket& bucket) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Part all = elements_of(parameters_[i], values_);
    const Part own{std::max(all.begin, bucket.own.begin), std::min(all.end, bucket.own.end)};
    if (own.begin >= own.end) continue;
    pieces_.push_back({.parameter = i,
                       .elements = own,
                       .first = own.begin - all.begin,
                       .moments = bucket.moments + own.begin - bucket.own.begin});
  }
}

void Optimizer::reduce(std::size_t bucket) {
  const TensorView gradients = rows(gradients_, buckets_[bucket].all);
  sharded_ ? ranks_.reduce_scatter(gradients) : ranks_.all_reduce(gradients);
}

StepSums Optimizer::step_sums() {
  ranks_.join();
  std::vector<bool> has_piece(host_sums_.size(), false);
  for (const Piece& piece : pieces_) {
    const auto row = static_cast<std::int64_t>(piece.parameter);
    ops::sum_of_squares(backend_,
                        {.out = sums_.rows(row, row + 1), .x = rows(gradients_, piece.elements)});
    has_piece[piece.parameter] = true;
  }
  backend_.download(host_sums_.data(), sums_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!has_piece[i]) host_sums_[i] = 0;
  }
  const std::span all(host_sums_);
  ranks_.sum(sharded_ ? all : all.last(1));
  StepSums sums;
  double total = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    total += host_sums_[i];
    if (sums.culprit.empty() && !std::isfinite(host_sums_[i])) sums.culprit = parameters_[i].name;
  }
  sums.losses = host_sums_.back();
  sums.gradient_norm = std::sqrt(total);
  return sums;
}

void Optimizer::update(std::int64_t update, double learning_rate, double gradient_norm) {
  const bool clips = config_.clip_norm > 0 && gradient_norm > config_.clip_norm;
  const auto factor = static_cast<float>(clips ? config_.clip_norm / gradient_norm : 1.0);
  backend_.upload(clip_, &factor);
  for (const Piece& piece : pieces_) {
    const Parameter& parameter = parameters_[piece.parameter];
    const Part moments{piece.moments, piece.moments + piece.elements.elements()};
    ops::adamw_step(backend_,
                    {.param = rows(values_, piece.elements),
                     .m = rows(m_, moments),
                     .v = rows(v_, moments),
                     .rounded = copies_ ? rows(copies_, piece.elements) : TensorView(),
                     .grad = rows(gradients_, piece.elements),
                     .clip = clip_,
                     .step = update,
                     .learning_rate = static_cast<float>(learning_rate),
                     .beta1 = static_cast<float>(config_.beta1),
                     .beta2 = static_cast<float>(config_.beta2),
                     .eps = static_cast<float>(config_.eps),
                     .weight_decay = static_cast<float>(parameter.decay ? config_.weight_decay : 0),
                     .rounding_seed = rounding_seed(seed_, parameter.name),
                     .first_element = piece.first});
  }
  // Passes read the copies if there are any; other ranks' weights are then gathered when needed.
  gather(copies_ ? copies_ : values_);
}

void Optimizer::gather(const TensorView& slab) {
  if (!sharded_) return;
  for (const Bucket& bucket : buckets_) ranks_.all_gather(rows(slab, bucket.all));
  ranks_.join();
}

TensorView Optimizer::own_moments(const TensorView& moments, const Bucket& bucket) {
  return moments.rows(bucket.moments, bucket.moments + bucket.own.elements());
}

OptimizerState Optimizer::room_for_state() {
  OptimizerState state;
  TensorView m = m_;
  TensorView v = v_;
  if (sharded_) {
    const std::int64_t elements = values_.elements();
    state.memory = backend_.allocate(2 * elements * size_of(DType::F32), "all moments");
    std::tie(m, v) = moments_in(state);
  }
  for (const Parameter& parameter : parameters_) {
    const Part elements = elements_of(parameter, values_);
    state.tensors.push_back({"m." + parameter.name, rows(m, elements).reshaped(parameter.shape)});
    state.tensors.push_back({"v." + parameter.name, rows(v, elements).reshaped(parameter.shape)});
  }
  return state;
}

// m and v, as room_for_state gives room for them.
std::pair<TensorView, TensorView> Optimizer::moments_in(const OptimizerState& state) const {
  const std::int64_t elements = values_.elements();
  const TensorView all(state.memory->data(), DType::F32, {2 * elements}, backend_.device());
  return {all.rows(0, elements), all.rows(elements, 2 * elements)};
}

OptimizerState Optimizer::state() {
  OptimizerState state = room_for_state();
  if (!sharded_) return state;
  if (copies_) gather(values_);
  const auto [m, v] = moments_in(state);
  for (const Bucket& bucket : buckets_) {
    ops::copy(backend_, {.out = rows(m, bucket.own), .x = own_moments(m_, bucket)});
    ops::copy(backend_, {.out = rows(v, bucket.own), .x = own_moments(v_, bucket)});
  }
  gather(m);
  gather(v);
  return state;
}

void Optimizer::adopt(const OptimizerState& state) {
  if (!sharded_) return;
  const auto [m, v] = moments_in(state);
  for (const Bucket& bucket : buckets_) {
    ops::copy(backend_, {.out = own_moments(m_, bucket), .x = rows(m, bucket.own)});
    ops::copy(backend_, {.out = own_moments(v_, bucket), .x = rows(v, bucket.own)});
  }
}

std::vector<MemoryLine> Optimizer::memory(std::int64_t elements) {
  return {{"optimizer moments", 2 * elements * size_of(DType::F32)}};
}

}  // namespace flywheel

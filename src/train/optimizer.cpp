#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

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
      part_(sharded_ ? part_of(values_.elements(), ranks.rank(), ranks.ranks())
                     : Part{0, values_.elements()}) {
  list_pieces();
  const auto count = static_cast<std::int64_t>(parameters_.size()) + 1;
  const std::int64_t elements = part_.elements();
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

void Optimizer::list_pieces() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Part all = elements_of(parameters_[i], values_);
    const Part mine{std::max(all.begin, part_.begin), std::min(all.end, part_.end)};
    if (mine.begin >= mine.end) continue;
    require(!parameters_[i].rounded || mine == all, ErrorKind::Internal,
            "bf16 copies are not yet rounded in parts");
    pieces_.push_back({i, mine});
  }
}

// The elements of a moment, which holds the own part only.
TensorView Optimizer::own(const TensorView& moment, const Part& elements) const {
  return moment.rows(elements.begin - part_.begin, elements.end - part_.begin);
}

TensorView Optimizer::rounded(const Piece& piece) const {
  const TensorView& copy = parameters_[piece.parameter].rounded;
  return copy ? copy.reshaped({copy.elements()}) : TensorView();
}

StepSums Optimizer::step_sums() {
  if (sharded_) {
    backend_.synchronize();
    ranks_.reduce_scatter(gradients_);
  } else if (ranks_.ranks() > 1) {
    backend_.synchronize();
    ranks_.all_reduce(gradients_);
  }
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
    ops::adamw_step(backend_,
                    {.param = rows(values_, piece.elements),
                     .m = own(m_, piece.elements),
                     .v = own(v_, piece.elements),
                     .rounded = rounded(piece),
                     .grad = rows(gradients_, piece.elements),
                     .clip = clip_,
                     .step = update,
                     .learning_rate = static_cast<float>(learning_rate),
                     .beta1 = static_cast<float>(config_.beta1),
                     .beta2 = static_cast<float>(config_.beta2),
                     .eps = static_cast<float>(config_.eps),
                     .weight_decay = static_cast<float>(parameter.decay ? config_.weight_decay : 0),
                     .rounding_seed = rounding_seed(seed_, parameter.name)});
  }
  if (!sharded_) return;
  backend_.synchronize();
  ranks_.all_gather(values_);
}

OptimizerState Optimizer::room_for_state() {
  OptimizerState state;
  TensorView m = m_;
  TensorView v = v_;
  if (sharded_) {
    const std::int64_t elements = values_.elements();
    state.memory = backend_.allocate(2 * elements * size_of(DType::F32), "all moments");
    const TensorView all(state.memory->data(), DType::F32, {2 * elements}, backend_.device());
    m = all.rows(0, elements);
    v = all.rows(elements, 2 * elements);
  }
  for (const Parameter& parameter : parameters_) {
    const Part elements = elements_of(parameter, values_);
    state.tensors.push_back({"m." + parameter.name, rows(m, elements).reshaped(parameter.shape)});
    state.tensors.push_back({"v." + parameter.name, rows(v, elements).reshaped(parameter.shape)});
  }
  return state;
}

OptimizerState Optimizer::state() {
  OptimizerState state = room_for_state();
  if (!sharded_) return state;
  const std::int64_t elements = values_.elements();
  const TensorView all(state.memory->data(), DType::F32, {2 * elements}, backend_.device());
  for (const std::int64_t begin : {std::int64_t{0}, elements}) {
    const TensorView moment = all.rows(begin, begin + elements);
    ops::copy(backend_, {.out = rows(moment, part_), .x = begin == 0 ? m_ : v_});
    backend_.synchronize();
    ranks_.all_gather(moment);
  }
  return state;
}

void Optimizer::adopt(const OptimizerState& state) {
  if (!sharded_) return;
  const std::int64_t elements = values_.elements();
  const TensorView all(state.memory->data(), DType::F32, {2 * elements}, backend_.device());
  ops::copy(backend_, {.out = m_, .x = rows(all, part_)});
  ops::copy(backend_, {.out = v_, .x = rows(all.rows(elements, 2 * elements), part_)});
}

std::vector<MemoryLine> Optimizer::memory(std::int64_t elements) {
  return {{"optimizer moments", 2 * elements * size_of(DType::F32)}};
}

}  // namespace flywheel

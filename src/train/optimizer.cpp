#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backend/ops.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

std::int64_t total_elements(std::span<const Parameter> parameters) {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.shape.elements();
  return total;
}

TensorView flat(const TensorView& view) {
  return view.reshaped({view.elements()});
}

}  // namespace

Optimizer::Optimizer(Backend& backend, std::span<const Parameter> parameters,
                     const OptimizerConfig& config, std::uint64_t seed)
    : backend_(backend), parameters_(parameters), config_(config), seed_(seed) {
  const auto count = static_cast<std::int64_t>(parameters.size()) + 1;
  const std::int64_t elements = total_elements(parameters);
  moments_memory_ = backend.allocate(2 * elements * size_of(DType::F32), "optimizer moments");
  sums_memory_ = backend.allocate(count * size_of(DType::F64), "sums of a step");
  clip_memory_ = backend.allocate(size_of(DType::F32), "clip factor");
  const DeviceKind device = backend.device();
  const TensorView all(moments_memory_->data(), DType::F32, {2 * elements}, device);
  std::int64_t offset = 0;
  for (std::vector<TensorView>* moment : {&m_, &v_}) {
    for (const Parameter& parameter : parameters) {
      const std::int64_t end = offset + parameter.shape.elements();
      moment->push_back(all.rows(offset, end));
      offset = end;
    }
  }
  sums_ = TensorView(sums_memory_->data(), DType::F64, {count}, device);
  clip_ = TensorView(clip_memory_->data(), DType::F32, {1}, device);
  host_sums_.resize(static_cast<std::size_t>(count));
}

StepSums Optimizer::step_sums() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    ops::sum_of_squares(backend_, {.out = sums_.rows(row, row + 1), .x = parameters_[i].grad});
  }
  backend_.download(host_sums_.data(), sums_);
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
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    ops::adamw_step(backend_,
                    {.param = flat(parameter.value),
                     .m = m_[i],
                     .v = v_[i],
                     .rounded = parameter.rounded ? flat(parameter.rounded) : TensorView(),
                     .grad = flat(parameter.grad),
                     .clip = clip_,
                     .step = update,
                     .learning_rate = static_cast<float>(learning_rate),
                     .beta1 = static_cast<float>(config_.beta1),
                     .beta2 = static_cast<float>(config_.beta2),
                     .eps = static_cast<float>(config_.eps),
                     .weight_decay = static_cast<float>(parameter.decay ? config_.weight_decay : 0),
                     .rounding_seed = rounding_seed(seed_, parameter.name)});
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    tensors.push_back({"m." + parameter.name, m_[i].reshaped(parameter.shape)});
    tensors.push_back({"v." + parameter.name, v_[i].reshaped(parameter.shape)});
  }
  return tensors;
}

std::vector<MemoryLine> Optimizer::memory(std::int64_t parameters) {
  return {{"optimizer moments", 2 * parameters * size_of(DType::F32)}};
}

}  // namespace flywheel

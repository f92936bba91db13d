#include "infer/weight_stream.h"

#include <algorithm>

#include "core/error.h"
#include "core/file_io.h"
#include "infer/load_parameter.h"
#include "infer/model_weights.h"

namespace flywheel {
namespace {

template <class Parameters>
bool any_experts(const Parameters& parameters) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& parameter) { return parameter.expert >= 0; });
}

// Beside experts the rest of a layer is small, and every token needs it.
bool in_unit(std::int64_t layer, std::int64_t expert, bool has_experts) {
  return has_experts ? expert >= 0 : layer >= 0;
}

}  // namespace

UnitSizes unit_sizes(const ParameterLayout& layout) {
  const bool has_experts = any_experts(layout.specs);
  std::map<std::int64_t, std::int64_t> layers;
  UnitSizes sizes;
  for (const ParameterSpec& spec : layout.specs) {
    if (!in_unit(spec.layer, spec.expert, has_experts)) continue;
    const std::int64_t bytes = bytes_of(spec.slot.dtype, spec.slot.shape.elements());
    sizes.units += bytes;
    sizes.largest = std::max(sizes.largest, layers[spec.layer] += bytes);
  }
  return sizes;
}

WeightStream::WeightStream(WeightsSource weights, const Transformer& model, Backend& backend,
                           std::int64_t room)
    : weights_(std::move(weights)),
      backend_(backend),
      room_(room),
      has_experts_(any_experts(model.parameters())) {
  for (const Parameter& parameter : model.parameters()) {
    if (!in_unit(parameter.layer, parameter.expert, has_experts_)) {
      load_parameter(weights_, parameter, backend);
      continue;
    }
    // Now is the time for errors.
    weights_.require_supported(find_tensor(weights_, parameter.name, parameter.shape));
    Unit& unit = units_[{parameter.layer, parameter.expert}];
    unit.parameters.push_back(&parameter);
    unit.bytes += parameter.value.bytes();
  }
}

void WeightStream::need(std::int64_t layer, std::span<const std::int32_t> experts) {
  std::vector<Unit*> needed;
  const auto add = [&](std::int64_t expert) {
    const auto found = units_.find({layer, expert});
    if (found != units_.end()) needed.push_back(&found->second);
  };
  if (experts.empty()) add(-1);
  for (const std::int32_t expert : experts) add(expert);
  ++needs_;
  for (Unit* unit : needed) unit->last_need = needs_;
  for (Unit* unit : needed) {
    if (!unit->resident) load(*unit);
  }
  if (!has_experts_) prefetch_after(layer);
}

void WeightStream::load(Unit& unit) {
  make_room(unit.bytes);
  for (const Parameter* parameter : unit.parameters) {
    load_parameter(weights_, *parameter, backend_);
  }
  unit.resident = true;
  resident_bytes_ += unit.bytes;
  ++units_read_;
}

// Layers come round in turn, so that the one that was just used is the last to be needed again; of
// experts, which texts choose, those go that were not needed for the longest time.
void WeightStream::make_room(std::int64_t bytes) {
  while (resident_bytes_ + bytes > room_) {
    Unit* victim = nullptr;
    for (auto& [key, unit] : units_) {
      if (!unit.resident || unit.last_need == needs_) continue;
      const bool better = victim == nullptr || (unit.last_need < victim->last_need) == has_experts_;
      if (better) victim = &unit;
    }
    require(victim != nullptr, ErrorKind::Internal, "no room for {} bytes of weights in {}", bytes,
            room_);
    for (const Parameter* parameter : victim->parameters) {
      const TensorView& value = parameter->value;
      discard_pages({value.data, static_cast<std::size_t>(value.bytes())});
    }
    victim->resident = false;
    resident_bytes_ -= victim->bytes;
  }
}

// The layer that is read next, while the pass computes.
void WeightStream::prefetch_after(std::int64_t layer) const {
  const auto absent = [](const auto& entry) { return !entry.second.resident; };
  auto next = std::find_if(units_.upper_bound({layer, -1}), units_.end(), absent);
  if (next == units_.end()) next = std::find_if(units_.begin(), units_.end(), absent);
  if (next == units_.end()) return;
  for (const Parameter* parameter : next->second.parameters) {
    prefetch_mapped(find_tensor(weights_, parameter->name, parameter->shape).bytes);
  }
}

}  // namespace flywheel

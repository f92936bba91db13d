#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "model/weights_source.h"

namespace flywheel {

// Bytes of a model's units: a unit is a layer or, in a mixture of experts, one of its experts; the
// rest of such a model, embeddings and head belong to none.
struct UnitSizes {
  std::int64_t units = 0;    // all of them
  std::int64_t largest = 0;  // those that a pass may need at the same time
};
UnitSizes unit_sizes(const ParameterLayout& layout);

// Parameters of a streamed model. Those of no unit are read at once; the others when a pass needs
// them, and stay until their room is needed.
class WeightStream {
 public:
  // `model` and `backend` outlive it. `room` is for units, at least UnitSizes::largest.
  WeightStream(WeightsSource weights, const Transformer& model, Backend& backend,
               std::int64_t room);

  void need(std::int64_t layer, std::span<const std::int32_t> experts);  // WeightsNeeded

  std::int64_t units_read() const { return units_read_; }

 private:
  struct Unit {
    std::vector<const Parameter*> parameters;
    std::int64_t bytes = 0;
    std::int64_t last_need = 0;
    bool resident = false;
  };
  using Key = std::pair<std::int64_t, std::int64_t>;  // layer, expert

  void load(Unit& unit);
  void make_room(std::int64_t bytes);
  void prefetch_after(std::int64_t layer) const;

  const WeightsSource weights_;
  Backend& backend_;
  const std::int64_t room_;
  std::map<Key, Unit> units_;
  bool has_experts_;
  std::int64_t resident_bytes_ = 0;
  std::int64_t needs_ = 0;
  std::int64_t units_read_ = 0;
};

}  // namespace flywheel

#pragma once

#include "backend/backend.h"
#include "core/stored_type.h"
#include "model/transformer.h"
#include "model/weights_source.h"

namespace flywheel {

// What a type of matrices in memory is called in files.
StoredType stored_as(DType kept);

// Fills a parameter from its tensor, as the model keeps it. Error Data: missing, or of another
// shape.
void load_parameter(const WeightsSource& weights, const Parameter& parameter, Backend& backend);

}  // namespace flywheel

#include "backend/backend.h"

namespace flywheel {

void Backend::add_rms_norm_forward(const AddRmsNormForward& args) {
  add({.out = args.sum, .a = args.x, .b = args.residual});
  rms_norm_forward(
      {.out = args.out, .rstd = args.rstd, .x = args.sum, .weight = args.weight, .eps = args.eps});
}

}  // namespace flywheel

#include "backend/backend.h"

#include <vector>

#include "core/error.h"

namespace flywheel {

std::unique_ptr<DeviceMemory> Backend::reserve(std::int64_t bytes, const std::string& name) {
  fail(ErrorKind::Config, "{}: {} bytes can only be reserved on a CPU, not on {}", name, bytes,
       description());
}

void Backend::add_rms_norm_forward(const AddRmsNormForward& args) {
  add({.out = args.sum, .a = args.x, .b = args.residual});
  rms_norm_forward(
      {.out = args.out, .rstd = args.rstd, .x = args.sum, .weight = args.weight, .eps = args.eps});
}

void Backend::round_weights(const RoundWeights& /*args*/) {
  fail(ErrorKind::Internal, "round_weights: {} does not compute in bf16", description());
}

void Backend::grouped_matmul(const GroupedMatmul& args) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(args.offsets.elements()));
  download(offsets.data(), args.offsets);
  const std::int64_t width = args.out.shape[1];
  for (std::size_t expert = 0; expert + 1 < offsets.size(); ++expert) {
    const std::int64_t begin = offsets[expert];
    const std::int64_t end = offsets[expert + 1];
    if (begin == end) continue;
    const auto first = static_cast<std::int64_t>(expert) * width;
    matmul({.out = args.out.rows(begin, end),
            .a = args.a.rows(begin, end),
            .b = args.b.rows(first, first + width),
            .bias = {},
            .transpose_b = true,
            .few_rows = args.few_rows});
  }
}

}  // namespace flywheel

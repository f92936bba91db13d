#include "cuda/peak_flops.h"

#include <array>

namespace flywheel::cuda {
namespace {

struct Sheet {
  std::string_view name;  // what the driver's name begins with
  double bf16, f32;       // without sparsity
};
constexpr std::array kSheets{Sheet{"A100", 312e12, 19.5e12}, Sheet{"H100 80GB", 989.4e12, 66.9e12},
                             Sheet{"H100 PCIe", 756e12, 51.2e12},
                             Sheet{"H200 NVL", 835.5e12, 60e12}, Sheet{"H200", 989.4e12, 66.9e12}};

}  // namespace

double peak_flops_of(std::string_view name, DType type) {
  constexpr std::string_view kMaker = "NVIDIA ";
  if (name.starts_with(kMaker)) name.remove_prefix(kMaker.size());
  for (const Sheet& sheet : kSheets) {
    if (name.starts_with(sheet.name)) return type == DType::BF16 ? sheet.bf16 : sheet.f32;
  }
  return 0;
}

}  // namespace flywheel::cuda

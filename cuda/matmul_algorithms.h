#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"
#include "cuda/device/blas.h"

namespace flywheel::cuda {

// A product, and the algorithm that was the fastest for it.
struct MatmulChoice {
  std::string device;   // name of the GPU
  std::string library;  // version of cuBLASLt
  std::string product;
  std::string algorithm;  // its words in hexadecimal
  double microseconds = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("device", self.device, "");
    visit("library", self.library, "");
    visit("product", self.product, "");
    visit("algorithm", self.algorithm, "");
    visit("microseconds", self.microseconds, "");
  }
};

// Measured choices in a JSON file. A run that finds them there computes the same bits as the one
// that measured them, on the same kind of GPU and with the same cuBLASLt; entries of others are
// kept.
class MatmulAlgorithms {
 public:
  // Reads the file if it is there. Error Config if it holds something else, or if its folder is
  // missing.
  MatmulAlgorithms(std::filesystem::path path, std::string device);

  std::optional<cublasLtMatmulAlgo_t> find(const std::string& product) const;
  // Also writes the file. Error Io if that fails.
  void add(const std::string& product, const cublasLtMatmulAlgo_t& algorithm, double microseconds);

 private:
  bool is_for(const MatmulChoice& choice, const std::string& product) const;

  std::filesystem::path path_;
  std::string device_;
  std::string library_;
  std::vector<MatmulChoice> choices_;
};

}  // namespace flywheel::cuda

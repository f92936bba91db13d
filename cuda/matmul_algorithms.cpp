#include "cuda/matmul_algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "core/config_faults.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"

namespace flywheel::cuda {
namespace {

struct AlgorithmFile {
  std::vector<MatmulChoice> products;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("products", self.products, "");
  }
};

constexpr std::size_t kDigits = 16;  // of a word

std::string to_text(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> to_algorithm(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != std::size(algorithm.data) * kDigits) return std::nullopt;
  const char* begin = text.data();
  for (auto& word : algorithm.data) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(begin, begin + kDigits, value, 16);
    if (error != std::errc() || end != begin + kDigits) return std::nullopt;
    word = value;
    begin = end;
  }
  return algorithm;
}

std::vector<MatmulChoice> read_choices(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    require(std::filesystem::is_directory(folder), ErrorKind::Config,
            "train.matmul_algorithms is \"{}\", but there is no folder {}", path.string(),
            folder.string());
    return {};
  }
  AlgorithmFile file;
  ConfigFaults faults(path.string());
  read_fields(file, read_json_file(path), faults);
  for (std::size_t i = 0; i < file.products.size(); ++i) {
    if (to_algorithm(file.products[i].algorithm)) continue;
    faults.add(fmt::format("products.{}.algorithm", i), "expected 128 hexadecimal digits");
  }
  faults.throw_if_any();
  return std::move(file.products);
}

}  // namespace

MatmulAlgorithms::MatmulAlgorithms(std::filesystem::path path, std::string device)
    : path_(std::move(path)),
      device_(std::move(device)),
      library_(std::to_string(blas().get_version())),
      choices_(read_choices(path_)) {}

bool MatmulAlgorithms::is_for(const MatmulChoice& choice, const std::string& product) const {
  return choice.product == product && choice.device == device_ && choice.library == library_;
}

std::optional<cublasLtMatmulAlgo_t> MatmulAlgorithms::find(const std::string& product) const {
  for (const MatmulChoice& choice : choices_) {
    if (is_for(choice, product)) return to_algorithm(choice.algorithm);
  }
  return std::nullopt;
}

void MatmulAlgorithms::add(const std::string& product, const cublasLtMatmulAlgo_t& algorithm,
                           double microseconds) {
  std::erase_if(choices_, [&](const MatmulChoice& choice) { return is_for(choice, product); });
  choices_.push_back({device_, library_, product, to_text(algorithm), microseconds});
  write_file_atomically(path_, write_fields(AlgorithmFile{choices_}).dump(2) + "\n");
}

}  // namespace flywheel::cuda

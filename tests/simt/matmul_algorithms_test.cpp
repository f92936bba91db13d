#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "core/file_io.h"
#include "cuda/cuda_backend.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

namespace {

// The product of two matrices, on top of ones if it accumulates. The emulator's algorithms differ
// in their last bits.
std::vector<float> multiply(Backend& backend, bool accumulate = false) {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kDepth = 100;
  std::vector<std::unique_ptr<DeviceMemory>> memories;
  const auto matrix = [&](std::int64_t columns, const std::vector<float>& values) {
    memories.push_back(backend.allocate(kRows * columns * 4, "a matrix"));
    const TensorView view(memories.back()->data(), DType::F32, {kRows, columns}, DeviceKind::Cuda);
    backend.upload(view, values.data());
    return view;
  };
  std::vector<float> values(kRows * kDepth);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 7919 % 1000) / 333.0F - 1.4F;
  }
  const TensorView a = matrix(kDepth, values);
  std::vector<float> result(kRows * kRows, 1.0F);
  const TensorView out = matrix(kRows, result);
  ops::matmul(backend, {.out = out, .a = a, .b = a, .transpose_b = true, .accumulate = accumulate});
  backend.download(result.data(), out);
  return result;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the fastest algorithm of a product is measured once and kept", "[simt]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "algorithms.json";
  const auto plain = multiply(*make_cuda_backend(0));
  const auto measured = multiply(*make_cuda_backend(0, {.matmul_algorithms = file}));
  CHECK(measured != plain);
  const std::string stored = read_text_file(file);
  CHECK(contains(stored, fmt::format("\"algorithm\": \"{:016x}{:0112x}\"", 1, 0)));
  CHECK(contains(stored, "f32 to f32, 9x9x100 nt"));
  CHECK(contains(stored, "\"microseconds\": 8.1"));

  CHECK(multiply(*make_cuda_backend(0, {.matmul_algorithms = file})) == measured);
  CHECK(read_text_file(file) == stored);

  // What is stored is taken, slow as it may be.
  const std::string slow = replaced(stored, fmt::format("{:016x}", 1), fmt::format("{:016x}", 2));
  write_file_atomically(file, slow);
  CHECK(multiply(*make_cuda_backend(0, {.matmul_algorithms = file})) == plain);
  CHECK(read_text_file(file) == slow);
}

TEST_CASE("measuring a product that accumulates leaves the sum alone", "[simt]") {
  const TemporaryFolder folder;
  const auto backend =
      make_cuda_backend(0, {.matmul_algorithms = folder.path() / "algorithms.json"});
  const auto sum = multiply(*backend, true);
  const auto product = multiply(*backend);
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == product[i] + 1);
}

TEST_CASE("algorithms of other devices are kept, of damaged files refused", "[simt]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "algorithms.json";
  const auto measured = multiply(*make_cuda_backend(0, {.matmul_algorithms = file}));
  const std::string stored = read_text_file(file);
  const std::string digits = fmt::format("{:016x}{:0112x}", 1, 0);

  write_file_atomically(file, replaced(stored, "\"library\": \"", "\"library\": \"another"));
  CHECK(multiply(*make_cuda_backend(0, {.matmul_algorithms = file})) == measured);
  CHECK(contains(read_text_file(file), "another"));
  CHECK(read_text_file(file).size() > 2 * stored.size() - 40);

  // One that the library does not know is measured anew.
  write_file_atomically(file, replaced(stored, digits, fmt::format("{:016x}{:0112x}", 77, 0)));
  CHECK(multiply(*make_cuda_backend(0, {.matmul_algorithms = file})) == measured);
  CHECK(read_text_file(file) == stored);

  write_file_atomically(file, replaced(stored, digits, "12"));
  CHECK(contains(error_of([&] { make_cuda_backend(0, {.matmul_algorithms = file}); }),
                 "products.0.algorithm: expected 128 hexadecimal digits"));
  write_file_atomically(file, "{\"product\": []}");
  CHECK(contains(error_of([&] { make_cuda_backend(0, {.matmul_algorithms = file}); }), "products"));

  const auto nowhere = folder.path() / "missing" / "algorithms.json";
  CHECK(
      contains(error_of([&] { make_cuda_backend(0, {.matmul_algorithms = nowhere}); }),
               "train.matmul_algorithms is \"" + nowhere.string() + "\", but there is no folder"));
}

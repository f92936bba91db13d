#include "simt/emulator/cublas_lt.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "simt/emulator/launch.h"
#include "simt/emulator/streams.h"

namespace simt {

struct MatmulHandle {};
struct MatmulPreference {};

struct MatmulDescription {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct MatrixLayout {
  cudaDataType_t type;
  std::int64_t rows, columns, leading_dimension;
};

namespace {

constexpr std::array kNanoseconds{3, 1, 2};  // a multiply-add, by algorithm
constexpr std::uint64_t kFromTheEnd = 1;

float read(const void* data, cudaDataType_t type, std::int64_t index) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[index]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
}

void write(void* data, cudaDataType_t type, std::int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
  }
}

struct Operand {
  const void* data;
  MatrixLayout layout;
  bool transposed;

  std::int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  std::int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  float operator()(std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    return read(data, layout.type, row + column * layout.leading_dimension);
  }
};

struct Product {
  Operand a, b;
  float alpha, beta;
  void* out;
  MatrixLayout out_layout;
  const void* bias;
  std::uint64_t algorithm;

  void run() const {
    const std::int64_t rows = a.rows();
    const std::int64_t depth = a.columns();
    std::vector<float> left(static_cast<std::size_t>(rows * depth));  // by columns
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t i = 0; i < rows; ++i)
        left[static_cast<std::size_t>(k * rows + i)] = a(i, k);
    }
    std::vector<float> sums(static_cast<std::size_t>(rows));
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::int64_t step = 0; step < depth; ++step) {
        const std::int64_t k = algorithm == kFromTheEnd ? depth - 1 - step : step;
        const float right = b(k, j);
        const float* column = left.data() + k * rows;
        for (std::int64_t i = 0; i < rows; ++i) {
          sums[static_cast<std::size_t>(i)] += column[i] * right;
        }
      }
      finish_column(j, sums);
    }
    pass_time(static_cast<double>(rows * depth * b.columns()) * kNanoseconds.at(algorithm));
  }

  void finish_column(std::int64_t column, const std::vector<float>& sums) const {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      const std::int64_t at = i + column * out_layout.leading_dimension;
      float value = alpha * sums[static_cast<std::size_t>(i)];
      if (beta != 0) value += beta * read(out, out_layout.type, at);
      if (bias) value += read(bias, out_layout.type, i);
      write(out, out_layout.type, at, value);
    }
    if (!observer) return;
    const std::int64_t size = out_layout.type == CUDA_R_32F ? 4 : 2;
    observer->filled(static_cast<char*>(out) + column * out_layout.leading_dimension * size,
                     static_cast<std::size_t>(a.rows() * size));
  }
};

bool valid(const Product& product) {
  const MatrixLayout& out = product.out_layout;
  const auto fits = [](const MatrixLayout& layout) {
    return layout.leading_dimension >= layout.rows || layout.columns <= 1;
  };
  return product.a.columns() == product.b.rows() && product.a.rows() == out.rows &&
         product.b.columns() == out.columns && fits(product.a.layout) && fits(product.b.layout) &&
         fits(out) && is_device_address(product.a.data) && is_device_address(product.b.data) &&
         is_device_address(product.out);
}

}  // namespace
}  // namespace simt

using namespace simt;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new MatmulHandle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                        cudaDataType_t) {
  *description = new MatmulDescription;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const auto take = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(description->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(description->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(description->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(description->bias);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension) {
  *layout = new MatrixLayout{type, static_cast<std::int64_t>(rows),
                             static_cast<std::int64_t>(columns), leading_dimension};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new MatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void*, std::size_t bytes) {
  const bool size = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  return bytes == (size ? sizeof(std::size_t) : sizeof(std::uint32_t))
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = std::min<int>(requested, std::size(kNanoseconds));
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return algorithm->data[0] < std::size(kNanoseconds) ? CUBLAS_STATUS_SUCCESS
                                                      : CUBLAS_STATUS_INVALID_VALUE;
}

std::size_t cublasLtGetVersion() {
  return 1;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  const Product product{
      .a = {a, *a_layout, operation->transpose_a == CUBLAS_OP_T},
      .b = {b, *b_layout, operation->transpose_b == CUBLAS_OP_T},
      .alpha = *static_cast<const float*>(alpha),
      .beta = *static_cast<const float*>(beta),
      .out = d,
      .out_layout = *d_layout,
      .bias = operation->epilogue == CUBLASLT_EPILOGUE_BIAS ? operation->bias : nullptr,
      .algorithm = algorithm->data[0]};
  if (c != d || !valid(product)) return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(stream, [product] { product.run(); });
  return CUBLAS_STATUS_SUCCESS;
}

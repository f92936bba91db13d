#include <cmath>
#include <cstring>
#include <limits>

#include "backend/ops.h"
#include "core/safetensors.h"
#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

// Against PyTorch and transformers: tests/oracle/model_golden.py made the files and says what is in
// them.
namespace {

constexpr std::int64_t kSteps = 10;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 12;
constexpr std::int64_t kTokens = kBatch * kLength;

class Golden {
 public:
  explicit Golden(const std::string& name) : reader_(golden(name)) {}

  std::vector<float> floats(const std::string& name) const {
    const SafetensorsEntry& entry = find(name);
    std::vector<float> values(static_cast<std::size_t>(entry.elements()));
    reader_.read_floats(entry, 0, values);
    return values;
  }
  std::vector<std::int32_t> integers(const std::string& name) const {
    const SafetensorsEntry& entry = find(name);
    std::vector<std::int32_t> values(static_cast<std::size_t>(entry.elements()));
    std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
    return values;
  }
  std::vector<std::int64_t> shape(const std::string& name) const { return find(name).shape; }
  std::size_t count(const std::string& prefix) const {
    std::size_t entries = 0;
    for (const auto& entry : reader_.entries()) entries += entry.name.starts_with(prefix);
    return entries;
  }

  // The error is at most twice PyTorch's in float32, plus rounding of both results.
  void require_close(const std::string& name, const std::vector<float>& result) const {
    const std::vector<float> exact = floats(name);
    REQUIRE(result.size() == exact.size());
    double squares = 0;
    double size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      squares += std::pow(double{result[i]} - double{exact[i]}, 2);
      size += std::pow(double{exact[i]}, 2);
    }
    const double count = static_cast<double>(exact.size());
    const double error = std::sqrt(squares / count);
    const double peer_error = double{floats("error/" + name)[0]};
    const double rounding =
        2 * double{std::numeric_limits<float>::epsilon()} * std::sqrt(size / count);
    INFO(name << ": error " << error << ", PyTorch's in float32 " << peer_error);
    REQUIRE(error <= 2 * peer_error + rounding);
  }

 private:
  const SafetensorsEntry& find(const std::string& name) const {
    const SafetensorsEntry* entry = reader_.find(name);
    INFO(name);
    REQUIRE(entry != nullptr);
    return *entry;
  }
  SafetensorsReader reader_;
};

ModelConfig golden_llama() {
  ModelConfig config = tiny_model();
  config.kv_heads = 2;
  config.intermediate_size = 48;
  return config;
}

ModelConfig golden_gpt2() {
  ModelConfig config = tiny_model();
  config.intermediate_size = 48;
  config.max_positions = 16;
  config.norm = NormKind::LayerNorm;
  config.position = PositionKind::Learned;
  config.mlp = MlpKind::Gelu;
  config.attention_bias = config.mlp_bias = true;
  return config;
}

void load_weights(const Transformer& model, Backend& backend, const Golden& file) {
  REQUIRE(file.count("weight/") == model.parameters().size());
  for (const Parameter& p : model.parameters()) {
    const std::vector<std::int64_t> shape = file.shape("weight/" + p.name);
    INFO(p.name);
    REQUIRE(static_cast<int>(shape.size()) == p.shape.rank());
    for (int axis = 0; axis < p.shape.rank(); ++axis) {
      REQUIRE(shape[static_cast<std::size_t>(axis)] == p.shape[axis]);
    }
    backend.upload(p.value, file.floats("weight/" + p.name).data());
  }
}

// One AdamW step on matrices with decay 0.1, on vectors without, after clipping to norm 1.
class TestOptimizer {
 public:
  TestOptimizer(const Transformer& model, Backend& backend) : backend_(backend) {
    for (const Parameter& p : model.parameters()) {
      moments_.push_back(backend.allocate(2 * p.value.bytes(), p.name));
    }
    scalar_ = backend.allocate(8, "scalar");
  }

  void step(const Transformer& model, std::int64_t number) {
    double squares = 0;
    const TensorView sum(scalar_->data(), DType::F64, {1}, backend_.device());
    for (const Parameter& p : model.parameters()) {
      double part = 0;
      ops::sum_of_squares(backend_, {.out = sum, .x = p.grad});
      backend_.download(&part, sum);
      squares += part;
    }
    const float clip = static_cast<float>(std::min(1.0, 1 / (std::sqrt(squares) + 1e-6)));
    const TensorView clip_view(scalar_->data(), DType::F32, {1}, backend_.device());
    backend_.upload(clip_view, &clip);
    std::size_t i = 0;
    for (const Parameter& p : model.parameters()) {
      const Shape flat{p.value.elements()};
      std::byte* moments = moments_[i++]->data();
      ops::adamw_step(backend_, {.param = p.value.reshaped(flat),
                                 .m = TensorView(moments, DType::F32, flat, backend_.device()),
                                 .v = TensorView(moments + p.value.bytes(), DType::F32, flat,
                                                 backend_.device()),
                                 .grad = p.grad.reshaped(flat),
                                 .clip = clip_view,
                                 .step = number,
                                 .learning_rate = 1e-2F,
                                 .beta1 = 0.9F,
                                 .beta2 = 0.95F,
                                 .eps = 1e-6F,
                                 .weight_decay = p.decay ? 0.1F : 0.0F});
    }
  }

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<DeviceMemory>> moments_;
  std::unique_ptr<DeviceMemory> scalar_;
};

void check_golden(const std::string& name, const ModelConfig& config) {
  const Golden file(name);
  const auto backend = make_cpu_backend(2);
  Transformer model(config, *backend, {.max_tokens = kTokens, .max_sequences = kBatch});
  load_weights(model, *backend, file);
  TestOptimizer optimizer(model, *backend);
  const std::vector<std::int32_t> inputs = file.integers("inputs");
  const std::vector<std::int32_t> targets = file.integers("targets");
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    positions.push_back(static_cast<std::int32_t>(t % kLength));
    rows.push_back(t);
  }
  const std::vector<std::int32_t> offsets{0, kLength, kTokens};
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto begin = static_cast<std::size_t>(step * kTokens);
    const PackedTokens tokens{std::span(inputs).subspan(begin, kTokens),
                              std::span(targets).subspan(begin, kTokens), positions, offsets};
    if (step == 0) {
      std::vector<float> logits(static_cast<std::size_t>(kTokens * config.vocab_size));
      std::vector<float> losses(kTokens);
      model.logits(tokens, {}, rows, logits);
      model.forward(tokens, {}, losses);
      file.require_close("logits", logits);
      file.require_close("losses", losses);
    }
    model.zero_gradients();
    model.forward_backward(tokens, {}, 1.0 / kTokens);
    if (step == 0) {
      for (const auto& [parameter, gradient] : gradients_of(model, *backend)) {
        file.require_close("grad/" + parameter, gradient);
      }
    }
    optimizer.step(model, step + 1);
  }
  for (const auto& [parameter, value] : values_of(model, *backend)) {
    file.require_close("final/" + parameter, value);
  }
}

}  // namespace

TEST_CASE("a Llama computes and learns what transformers' does", "[model]") {
  check_golden("model_llama.safetensors", golden_llama());
}

TEST_CASE("a GPT-2 computes and learns what transformers' does", "[model]") {
  check_golden("model_gpt2.safetensors", golden_gpt2());
}

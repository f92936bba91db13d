#include "backend/ops.h"

#include <algorithm>
#include <set>

#include "attention/plan.h"
#include "core/error.h"
#include "parity/op_case.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

// Does nothing but count the calls that the fronts let through.
class CountingBackend final : public Backend {
 public:
  int calls = 0;

  explicit CountingBackend(DeviceKind device = DeviceKind::Cpu) : device_(device) {}
  DeviceKind device() const override { return device_; }
  std::string description() const override { return "counts calls"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t, const std::string&) override { return {}; }
  void upload(const TensorView&, const void*) override {}
  void download(void*, const TensorView&) override {}
  void synchronize() override {}
  std::int64_t attention_tile() const override { return 64; }
  void upload_plan(const AttentionPlan&) override {}
  void matmul(const Matmul&) override { ++calls; }
  void bias_backward(const BiasBackward&) override { ++calls; }
  void embedding_forward(const EmbeddingForward&) override { ++calls; }
  void embedding_backward(const EmbeddingBackward&) override { ++calls; }
  void rms_norm_forward(const RmsNormForward&) override { ++calls; }
  void add_rms_norm_forward(const AddRmsNormForward&) override { ++calls; }
  void rms_norm_backward(const RmsNormBackward&) override { ++calls; }
  void layer_norm_forward(const LayerNormForward&) override { ++calls; }
  void layer_norm_backward(const LayerNormBackward&) override { ++calls; }
  void split_heads_forward(const SplitHeadsForward&) override { ++calls; }
  void split_heads_backward(const SplitHeadsBackward&) override { ++calls; }
  void attention_forward(const AttentionForward&) override { ++calls; }
  void attention_backward(const AttentionBackward&) override { ++calls; }
  void kv_cache_write(const KvCacheWrite&) override { ++calls; }
  void attention_decode(const AttentionDecode&) override { ++calls; }
  void gate_mix_forward(const GateMixForward&) override { ++calls; }
  void gate_mix_backward(const GateMixBackward&) override { ++calls; }
  void swiglu_forward(const SwigluForward&) override { ++calls; }
  void swiglu_backward(const SwigluBackward&) override { ++calls; }
  void route_experts(const RouteExperts&) override { ++calls; }
  void grouped_matmul(const GroupedMatmul&) override { ++calls; }
  void combine_experts(const CombineExperts&) override { ++calls; }
  void gelu_forward(const GeluForward&) override { ++calls; }
  void gelu_backward(const GeluBackward&) override { ++calls; }
  void cross_entropy(const CrossEntropy&) override { ++calls; }
  void adamw_step(const AdamWStep&) override { ++calls; }
  void round_weights(const RoundWeights&) override { ++calls; }
  void sum(const Sum&) override { ++calls; }
  void sum_of_squares(const SumOfSquares&) override { ++calls; }
  void add(const Add&) override { ++calls; }
  void scale(const Scale&) override { ++calls; }
  void fill(const Fill&) override { ++calls; }
  void copy(const Copy&) override { ++calls; }

 private:
  DeviceKind device_;
};

// A case's views onto memory of their own.
struct Arguments {
  std::map<std::string, std::vector<double>> memory;
  Views views;

  explicit Arguments(const OpCase& op_case, DeviceKind device = DeviceKind::Cpu) {
    for (const Operand& operand : op_case.operands) {
      auto& values = memory[operand.name];
      values.resize(operand.initial.values.size() + 1);
      views.set(operand.name,
                TensorView(values.data(), operand.dtype, operand.initial.shape, device));
    }
  }
};

void require_refused(const OpCase& op_case, const Views& views, const std::string& what,
                     DeviceKind device = DeviceKind::Cpu) {
  CAPTURE(op_case.name, what);
  CountingBackend backend(device);
  std::string message;
  try {
    op_case.run(backend, views);
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Shape);
    message = error.what();
  }
  CAPTURE(message);
  REQUIRE(backend.calls == 0);
  const std::string op = op_case.name.substr(0, op_case.name.find(' '));
  REQUIRE(message.rfind(op + ": ", 0) == 0);
}

Shape wider(const Shape& shape) {
  switch (shape.rank()) {
    case 1:
      return {shape[0] + 1};
    case 2:
      return {shape[0], shape[1] + 1};
    case 3:
      return {shape[0], shape[1], shape[2] + 1};
    default:
      return {shape[0], shape[1], shape[2], shape[3] + 1};
  }
}

// The cases that go through the fronts.
std::vector<OpCase> front_cases() {
  std::vector<OpCase> cases = all_op_cases();
  std::erase_if(cases,
                [](const OpCase& c) { return c.name.find("composed") != std::string::npos; });
  return cases;
}

const std::set<std::string> kFreeInWidth{"scale x", "fill x", "sum x", "sum_of_squares x",
                                         "cross_entropy logits"};
// May be in types that weights are kept in.
const std::set<std::string> kKeptWeights{"matmul b", "grouped_matmul b", "embedding_forward table"};
const std::set<std::string> kOptional{"bias", "dbias", "position_table", "dposition_table",
                                      "most_likely"};
const std::set<std::string> kInPlace{"sum=x", "sum=residual", "da=dout", "dgate_up=gate_up",
                                     "dx=x",  "out=a",        "out=b"};

}  // namespace

TEST_CASE("the fronts let right arguments through", "[backend]") {
  for (const OpCase& op_case : front_cases()) {
    CountingBackend backend;
    CAPTURE(op_case.name);
    op_case.run(backend, Arguments(op_case).views);
    REQUIRE(backend.calls == 1);
  }
}

TEST_CASE("the fronts refuse missing and misshapen arguments", "[backend]") {
  for (const OpCase& op_case : front_cases()) {
    const std::string op = op_case.name.substr(0, op_case.name.find(' '));
    const Arguments arguments(op_case);
    for (const Operand& operand : op_case.operands) {
      const auto with = [&](const TensorView& view) {
        Views views = arguments.views;
        views.set(operand.name, view);
        return views;
      };
      const TensorView right = arguments.views[operand.name];
      if (!kOptional.count(operand.name)) {
        require_refused(op_case, with(TensorView()), "no " + operand.name);
      }
      TensorView wrong = right;
      wrong.dtype = kKeptWeights.count(op + " " + operand.name) ? DType::F64 : DType::BF16;
      if (op != "copy") require_refused(op_case, with(wrong), operand.name + " of another type");
      wrong = right;
      wrong.device = DeviceKind::Cuda;
      require_refused(op_case, with(wrong), operand.name + " on another device");
      if (kFreeInWidth.count(op + " " + operand.name)) continue;
      wrong = TensorView(right.data, right.dtype, wider(right.shape));
      require_refused(op_case, with(wrong), operand.name + " too wide");
    }
  }
}

TEST_CASE("the fronts let bf16 through on a GPU alone, and not beside f32", "[backend]") {
  for (const OpCase& op_case : bf16_op_cases()) {
    const Arguments arguments(op_case, DeviceKind::Cuda);
    CAPTURE(op_case.name);
    CountingBackend gpu(DeviceKind::Cuda);
    op_case.run(gpu, arguments.views);
    REQUIRE(gpu.calls == 1);
    const bool moves_bytes = op_case.name.starts_with("copy ");
    if (!moves_bytes) require_refused(op_case, Arguments(op_case).views, "bf16 on the CPU");
    const auto in_bf16 =
        std::count_if(op_case.operands.begin(), op_case.operands.end(),
                      [](const Operand& operand) { return operand.dtype == DType::BF16; });
    for (const Operand& operand : op_case.operands) {
      if (operand.dtype == DType::I32) continue;
      if (operand.dtype == DType::BF16 && in_bf16 == 1) continue;  // then all is f32
      const bool product_in_either =
          op_case.name.starts_with("matmul") && operand.name == "out" && !arguments.views["bias"];
      if (product_in_either) continue;
      Views views = arguments.views;
      TensorView other = views[operand.name];
      other.dtype = other.dtype == DType::F32 ? DType::BF16 : DType::F32;
      views.set(operand.name, other);
      require_refused(op_case, views, operand.name + " of another type", DeviceKind::Cuda);
    }
  }
}

TEST_CASE("the fronts refuse destinations that overlap other arguments", "[backend]") {
  for (const OpCase& op_case : front_cases()) {
    const std::string op = op_case.name.substr(0, op_case.name.find(' '));
    const Arguments arguments(op_case);
    for (const Operand& out : op_case.operands) {
      if (out.role == Role::kInput) continue;
      for (const Operand& in : op_case.operands) {
        if (in.name == out.name || in.initial.shape != out.initial.shape) continue;
        const std::string pair = out.name + "=" + in.name;
        const bool norm = op.find("norm_backward") != std::string::npos;
        const bool allowed =
            kInPlace.count(pair) && op != "matmul" && op != "gate_mix_forward" && !norm;
        if (allowed || in.dtype != out.dtype) continue;
        Views views = arguments.views;
        views.set(out.name, views[in.name]);
        require_refused(op_case, views, pair);
      }
    }
  }
}

TEST_CASE("a front's error says what was expected and what came", "[backend]") {
  std::vector<float> memory(100);
  const auto view = [&](Shape shape, std::size_t at) {
    return TensorView(memory.data() + at, DType::F32, shape);
  };
  CountingBackend backend;
  try {
    ops::rms_norm_forward(backend, {.out = view({3, 8}, 0),
                                    .rstd = view({4}, 90),
                                    .x = view({4, 8}, 40),
                                    .weight = view({8}, 80)});
    FAIL("accepted");
  } catch (const Error& error) {
    REQUIRE(std::string(error.what()) ==
            "rms_norm_forward: out is [3, 8]; expected [4, 8] to fit x");
  }
}

TEST_CASE("attention_backward refuses tables of RoPE that do not fit", "[backend]") {
  std::vector<float> memory(1000);
  std::size_t used = 0;
  const auto view = [&](const Shape& shape, DType type = DType::F32) {
    const TensorView next(memory.data() + used, type, shape);
    used += static_cast<std::size_t>(shape.elements());
    return next;
  };
  AttentionPlan plan({}, 64, 5, 1);
  const Shape heads{5, 2, 8};
  const AttentionBackward right{.dq = view(heads),
                                .dk = view(heads),
                                .dv = view(heads),
                                .dout = view(heads),
                                .out = view(heads),
                                .lse = view({2, 5}),
                                .q = view(heads),
                                .k = view(heads),
                                .v = view(heads),
                                .cos = view({9, 4}),
                                .sin = view({9, 4}),
                                .positions = view({5}, DType::I32),
                                .plan = &plan,
                                .scale = 1};
  CountingBackend backend;
  ops::attention_backward(backend, right);
  REQUIRE(backend.calls == 1);
  const auto refused = [&](TensorView AttentionBackward::*which, const TensorView& wrong) {
    AttentionBackward args = right;
    args.*which = wrong;
    return error_of([&] { ops::attention_backward(backend, args); });
  };
  const std::string op = "shape: attention_backward: ";
  CHECK(refused(&AttentionBackward::cos, {}) == op + "sin is given; expected none without cos");
  CHECK(refused(&AttentionBackward::sin, {}) == op + "sin is missing");
  CHECK(refused(&AttentionBackward::positions, {}) == op + "positions is missing");
  CHECK(refused(&AttentionBackward::cos, view({9, 8})) ==
        op + "cos is [9, 8]; expected [9, 4] to fit q");
  CHECK(refused(&AttentionBackward::sin, view({8, 4})) ==
        op + "sin is [8, 4]; expected [9, 4] to fit q");
  CHECK(refused(&AttentionBackward::positions, view({4}, DType::I32)) ==
        op + "positions is [4]; expected [5] to fit q");
  REQUIRE(backend.calls == 1);
}

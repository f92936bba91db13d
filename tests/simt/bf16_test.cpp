// The kernels on bf16 tensors. Every op reads what bf16 holds, so
// its error against double is at most half a unit of the result's last place, and what float
// leaves.
#include <cmath>
#include <random>

#include "core/philox.h"
#include "cuda/device/check.h"
#include "cuda/device/runtime.h"
#include "cuda/kernels/kernels.h"
#include "cuda/memory.h"
#include "simt/emulator/types.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/reference_ops.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr double kHalfUnit = 0x1p-8;  // of bf16, relative

// Tensors by the names of an op's fields, on the device and as arrays of double.
class Tensors {
 public:
  explicit Tensors(std::uint32_t seed) : random_(seed) {}

  TensorView bf16(const std::string& name, Shape shape, bool random = true) {
    return add(name, shape, DType::BF16, random);
  }
  TensorView f32(const std::string& name, Shape shape, bool random = false) {
    return add(name, shape, DType::F32, random);
  }
  TensorView indices(const std::string& name, std::int64_t count, std::int64_t limit) {
    Array<double> values(Shape{count});
    for (double& x : values.values) x = static_cast<double>(random_() % limit);
    return upload(name, values, DType::I32);
  }
  Arrays<double>& before() { return before_; }
  cuda::Workspace workspace() { return {workspace_.data(), workspace_.bytes()}; }

  // What the device holds now.
  std::vector<double> read(const std::string& name) {
    const Entry& entry = entries_.at(name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.view.bytes()));
    cuda::check(cudaMemcpy(bytes.data(), entry.view.data, bytes.size(), cudaMemcpyDeviceToHost),
                "read");
    std::vector<double> values(static_cast<std::size_t>(entry.view.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(entry.view.dtype, bytes, i);
    return values;
  }

  // Elements that are off by more than rounding once to their dtype, plus `noise` in all.
  void check(const std::string& name, const Arrays<double>& expected, double noise = 2e-5) {
    const std::vector<double> measured = read(name);
    const std::vector<double>& truth = expected.at(name).values;
    const bool half = entries_.at(name).view.dtype == DType::BF16;
    double largest = 0;
    for (const double x : truth) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double allowed = (half ? kHalfUnit * std::abs(truth[i]) : 0) + noise * (1 + largest);
      CAPTURE(name, i, measured[i], truth[i], allowed);
      if (!(std::abs(measured[i] - truth[i]) <= allowed)) FAIL("off by more than rounding");
    }
  }

 private:
  struct Entry {
    std::unique_ptr<cuda::Memory> memory;
    TensorView view;
  };

  static double decode(DType dtype, const std::vector<std::byte>& bytes, std::size_t i) {
    if (dtype == DType::BF16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * 2, 2);
      return static_cast<double>(simt::bf16_to_float(bits));
    }
    float value = 0;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return static_cast<double>(value);
  }

  TensorView add(const std::string& name, Shape shape, DType dtype, bool random) {
    Array<double> values(shape);
    for (double& x : values.values) {
      const auto drawn = random ? static_cast<float>(normal_(random_)) : 0.0F;
      x = static_cast<double>(dtype == DType::BF16 ? simt::bf16_to_float(simt::round_to_bf16(drawn))
                                                   : drawn);
    }
    return upload(name, values, dtype);
  }

  TensorView upload(const std::string& name, const Array<double>& values, DType dtype) {
    std::vector<std::byte> bytes(values.values.size() * static_cast<std::size_t>(size_of(dtype)));
    for (std::size_t i = 0; i < values.values.size(); ++i) {
      const auto value = static_cast<float>(values.values[i]);
      if (dtype == DType::BF16) {
        const std::uint16_t bits = simt::round_to_bf16(value);
        std::memcpy(bytes.data() + i * 2, &bits, 2);
      } else if (dtype == DType::I32) {
        const auto whole = static_cast<std::int32_t>(value);
        std::memcpy(bytes.data() + i * 4, &whole, 4);
      } else {
        std::memcpy(bytes.data() + i * 4, &value, 4);
      }
    }
    auto memory = std::make_unique<cuda::Memory>(static_cast<std::int64_t>(bytes.size()), name);
    cuda::check(cudaMemcpy(memory->data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                "upload");
    const TensorView view(memory->data(), dtype, values.shape, DeviceKind::Cuda);
    entries_[name] = {std::move(memory), view};
    before_[name] = values;
    return view;
  }

  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  std::map<std::string, Entry> entries_;
  Arrays<double> before_;
  cuda::Memory workspace_{4 << 20, "workspace"};
};

constexpr std::int64_t kRows = 37;

}  // namespace

TEST_CASE("norms of bf16 rows are right to rounding", "[simt]") {
  for (const std::int64_t width : {264, 67}) {
    Tensors t(1);
    const Shape shape{kRows, width};
    const TensorView sum = t.bf16("sum", shape, false);
    const TensorView out = t.bf16("out", shape, false);
    const TensorView rstd = t.f32("rstd", {kRows});
    const TensorView mean = t.f32("mean", {kRows});
    const TensorView x = t.bf16("x", shape);
    const TensorView residual = t.bf16("residual", shape);
    const TensorView weight = t.bf16("weight", {width});
    cuda::add_rms_norm_forward(
        {.sum = sum, .out = out, .rstd = rstd, .x = x, .residual = residual, .weight = weight},
        nullptr);
    Arrays<double> expected = t.before();
    reference::add_rms_norm_forward(expected, 1e-5F);
    t.check("sum", expected);
    expected["x"].values = t.read("sum");  // the norm is that of the rounded sum
    reference::rms_norm_forward(expected, 1e-5F);
    t.check("out", expected);
    t.check("rstd", expected);

    const TensorView dx = t.bf16("dx", shape, false);
    const TensorView dout = t.bf16("dout", shape);
    const TensorView dweight = t.f32("dweight", {width}, true);
    const TensorView dbias = t.f32("dbias", {width}, true);
    const TensorView bias = t.bf16("bias", {width});
    cuda::layer_norm_forward(
        {.out = out, .mean = mean, .rstd = rstd, .x = x, .weight = weight, .bias = bias}, nullptr);
    cuda::layer_norm_backward({.dx = dx,
                               .dweight = dweight,
                               .dbias = dbias,
                               .dout = dout,
                               .x = x,
                               .mean = mean,
                               .rstd = rstd,
                               .weight = weight},
                              t.workspace(), nullptr);
    expected = t.before();
    reference::layer_norm_forward(expected, 1e-5F);
    reference::layer_norm_backward(expected, false);
    t.check("out", expected);
    t.check("dx", expected);
    t.check("dweight", expected);
    t.check("dbias", expected);
  }
}

TEST_CASE("activations of bf16 tensors are right to rounding", "[simt]") {
  for (const std::int64_t width : {272, 51}) {
    Tensors t(2);
    const TensorView out = t.bf16("out", {kRows, width}, false);
    const TensorView gate_up = t.bf16("gate_up", {kRows, 2 * width});
    const TensorView dgate_up = t.bf16("dgate_up", {kRows, 2 * width}, false);
    const TensorView dout = t.bf16("dout", {kRows, width});
    cuda::swiglu_forward({.out = out, .gate_up = gate_up}, nullptr);
    cuda::swiglu_backward({.dgate_up = dgate_up, .dout = dout, .gate_up = gate_up}, nullptr);
    Arrays<double> expected = t.before();
    reference::swiglu_forward(expected);
    reference::swiglu_backward(expected);
    t.check("out", expected);
    t.check("dgate_up", expected);

    const TensorView x = t.bf16("x", {kRows, width});
    const TensorView dx = t.bf16("dx", {kRows, width}, false);
    cuda::gelu_forward({.out = out, .x = x}, nullptr);
    cuda::gelu_backward({.dx = dx, .dout = dout, .x = x}, nullptr);
    expected = t.before();
    reference::gelu_forward(expected);
    reference::gelu_backward(expected);
    t.check("out", expected);
    t.check("dx", expected);
  }
}

TEST_CASE("embeddings and biases of bf16 tensors are right to rounding", "[simt]") {
  for (const std::int64_t width : {264, 35}) {
    Tensors t(3);
    const TensorView out = t.bf16("out", {kRows, width}, false);
    const TensorView ids = t.indices("ids", kRows, 700);
    const TensorView table = t.bf16("table", {700, width});
    const TensorView dtable = t.f32("dtable", {700, width}, true);
    const TensorView dbias = t.f32("dbias", {width}, true);
    const TensorView dout = t.bf16("dout", {kRows, width});
    cuda::embedding_forward({.out = out, .ids = ids, .table = table}, nullptr);
    cuda::embedding_backward({.dtable = dtable, .dout = dout, .ids = ids}, t.workspace(), nullptr);
    cuda::bias_backward({.dbias = dbias, .dout = dout}, t.workspace(), nullptr);
    Arrays<double> expected = t.before();
    reference::embedding_forward(expected);
    reference::embedding_backward(expected);
    reference::bias_backward(expected);
    t.check("out", expected);
    t.check("dtable", expected);
    t.check("dbias", expected);
  }
}

TEST_CASE("cross-entropy of bf16 logits is right to rounding", "[simt]") {
  for (const std::int64_t padded : {1008, 1003}) {
    Tensors t(4);
    const reference::CrossEntropyOptions o{1001, 0.25F, 1e-2F};
    const TensorView losses = t.f32("losses", {kRows});
    const TensorView logits = t.bf16("logits", {kRows, padded});
    const TensorView targets = t.indices("targets", kRows, 1001);
    cuda::cross_entropy({.losses = losses,
                         .logits = logits,
                         .targets = targets,
                         .vocab_size = o.vocab_size,
                         .gradient_scale = o.gradient_scale,
                         .z_loss = o.z_loss},
                        nullptr);
    Arrays<double> expected = t.before();
    reference::cross_entropy(expected, o);
    t.check("losses", expected);
    t.check("logits", expected);
  }
}

TEST_CASE("heads and gates of bf16 tensors are right to rounding", "[simt]") {
  Tensors t(5);
  constexpr std::int64_t kSize = 64;
  const Shape q_shape{kRows, 4, kSize};
  const Shape kv_shape{kRows, 2, kSize};
  const TensorView q = t.bf16("q", q_shape, false);
  const TensorView k = t.bf16("k", kv_shape, false);
  const TensorView v = t.bf16("v", kv_shape, false);
  const TensorView q_rstd = t.f32("q_rstd", {kRows, 4});
  const TensorView k_rstd = t.f32("k_rstd", {kRows, 2});
  const TensorView qkv = t.bf16("qkv", {kRows, 8 * kSize});
  const TensorView q_weight = t.bf16("q_norm_weight", {kSize});
  const TensorView k_weight = t.bf16("k_norm_weight", {kSize});
  const TensorView cos = t.f32("cos", {9, kSize / 2}, true);
  const TensorView sin = t.f32("sin", {9, kSize / 2}, true);
  const TensorView positions = t.indices("positions", kRows, 9);
  cuda::split_heads_forward({.q = q,
                             .k = k,
                             .v = v,
                             .q_rstd = q_rstd,
                             .k_rstd = k_rstd,
                             .qkv = qkv,
                             .q_norm_weight = q_weight,
                             .k_norm_weight = k_weight,
                             .cos = cos,
                             .sin = sin,
                             .positions = positions},
                            nullptr);
  Arrays<double> expected = t.before();
  reference::split_heads_forward(expected, 1e-6F);
  for (const char* name : {"q", "k", "v", "q_rstd", "k_rstd"}) t.check(name, expected);

  const TensorView a = t.bf16("a", q_shape);
  const TensorView b = t.bf16("b", q_shape);
  const TensorView out = t.bf16("out", q_shape, false);
  const TensorView da = t.bf16("da", q_shape, false);
  const TensorView db = t.bf16("db", q_shape, false);
  const TensorView dout = t.bf16("dout", q_shape);
  const TensorView gates = t.bf16("gate_logits", {kRows, 8});
  const TensorView dgates = t.bf16("dgate_logits", {kRows, 8}, false);
  cuda::gate_mix_forward({.out = out, .a = a, .b = b, .gate_logits = gates}, nullptr);
  cuda::gate_mix_backward({.da = da,
                           .db = db,
                           .dgate_logits = dgates,
                           .dout = dout,
                           .a = a,
                           .b = b,
                           .gate_logits = gates},
                          nullptr);
  expected = t.before();
  reference::gate_mix_forward(expected);
  reference::gate_mix_backward(expected);
  for (const char* name : {"out", "da", "db", "dgate_logits"}) t.check(name, expected);
}

// A rank that updates a part of a parameter (ZeRO-1).
TEST_CASE("AdamW in parts gives the bits of the whole", "[simt]") {
  constexpr std::int64_t kCount = 1003;
  const auto update = [](const std::vector<std::int64_t>& bounds) {
    Tensors t(8);
    const TensorView param = t.f32("param", {kCount}, true);
    const TensorView m = t.f32("m", {kCount}, true);
    const TensorView v = t.f32("v", {kCount});
    const TensorView grad = t.f32("grad", {kCount}, true);
    const TensorView clip = t.f32("clip", {1}, true);
    const TensorView rounded = t.bf16("rounded", {kCount}, false);
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const auto part = [&](const TensorView& x) { return x.rows(bounds[i], bounds[i + 1]); };
      cuda::adamw_step({.param = part(param),
                        .m = part(m),
                        .v = part(v),
                        .rounded = part(rounded),
                        .grad = part(grad),
                        .clip = clip,
                        .step = 3,
                        .learning_rate = 0.1F,
                        .rounding_seed = 5,
                        .first_element = bounds[i]},
                       nullptr);
    }
    return t.read("rounded");
  };
  const std::vector<double> whole = update({0, kCount});
  CHECK(update({0, 16, 528, kCount}) == whole);
  CHECK(update({0, 3, 6, 517, kCount}) == whole);
}

TEST_CASE("AdamW rounds the bf16 copy by the documented Philox words", "[simt]") {
  for (const std::int64_t count : {4096, 1003}) {
    Tensors t(7);
    const TensorView param = t.f32("param", {count}, true);
    const TensorView m = t.f32("m", {count}, true);
    const TensorView v = t.f32("v", {count});
    const TensorView grad = t.f32("grad", {count}, true);
    const TensorView clip = t.f32("clip", {1}, true);
    const TensorView rounded = t.bf16("rounded", {count}, false);
    constexpr std::uint64_t kSeed = 0x1234567890abcdefULL;
    cuda::adamw_step({.param = param,
                      .m = m,
                      .v = v,
                      .rounded = rounded,
                      .grad = grad,
                      .clip = clip,
                      .step = 3,
                      .learning_rate = 0.1F,
                      .rounding_seed = kSeed},
                     nullptr);
    const std::vector<double> weights = t.read("param");
    const std::vector<double> copies = t.read("rounded");
    double bias = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto words = philox4x32({static_cast<std::uint32_t>(i / 4), 0, 3,
                                     static_cast<std::uint32_t>(RandomStream::kRounding)},
                                    {0x90abcdefU, 0x12345678U});
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(weights[i]));
      const auto expected = static_cast<std::uint16_t>((bits + (words[i % 4] & 0xffffU)) >> 16);
      REQUIRE(copies[i] == static_cast<double>(simt::bf16_to_float(expected)));
      bias += (copies[i] - weights[i]) / std::abs(weights[i]);
    }
    CHECK(std::abs(bias) / static_cast<double>(count) < 3 * kHalfUnit / std::sqrt(count));
    // What a resumed run makes of the weights.
    const TensorView again = t.bf16("again", {count}, false);
    cuda::round_weights({.out = again, .x = param, .seed = kSeed, .step = 3}, nullptr);
    CHECK(t.read("again") == copies);
    cuda::round_weights({.out = again, .x = param, .seed = kSeed, .step = 0}, nullptr);
    const std::vector<double> nearest = t.read("again");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto expected = simt::round_to_bf16(static_cast<float>(weights[i]));
      REQUIRE(nearest[i] == static_cast<double>(simt::bf16_to_float(expected)));
    }
  }
}

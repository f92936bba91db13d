#include "support/reference_ops.h"

#include <cmath>
#include <functional>
#include <random>

#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

using Op = std::function<void(Arrays<double>&)>;

class GradientCheck {
 public:
  explicit GradientCheck(Op forward) : forward_(std::move(forward)) {}

  GradientCheck& input(const std::string& name, Shape shape) {
    tensors_[name] = random_array(shape);
    return *this;
  }
  GradientCheck& indices(const std::string& name, std::vector<double> values) {
    tensors_[name] = Array<double>(Shape{static_cast<std::int64_t>(values.size())});
    tensors_[name].values = std::move(values);
    return *this;
  }
  // An output of the forward op whose gradient the backward op reads as "d" + name: random, or one
  // value.
  GradientCheck& output(const std::string& name, Shape shape, double gradient = 0) {
    tensors_[name] = Array<double>(shape);
    tensors_["d" + name] = random_array(shape);
    if (gradient != 0) tensors_["d" + name].values.assign(tensors_[name].values.size(), gradient);
    outputs_.push_back(name);
    return *this;
  }
  GradientCheck& saved(const std::string& name, Shape shape) {
    tensors_[name] = Array<double>(shape);
    return *this;
  }

  // Compares backward's "d" + name for each name with central differences of sum(doutput * output).
  void run(const Op& backward, const std::vector<std::string>& names) {
    Arrays<double> analytic = tensors_;
    forward_(analytic);
    for (const std::string& name : names)
      analytic["d" + name] = Array<double>(tensors_[name].shape);
    backward(analytic);
    for (const std::string& name : names) {
      for (std::size_t i = 0; i < tensors_[name].values.size(); ++i) {
        constexpr double kStep = 1e-5;
        const double slope = (loss(name, i, kStep) - loss(name, i, -kStep)) / (2 * kStep);
        CAPTURE(name, i);
        REQUIRE(analytic["d" + name].values[i] == Approx(slope).epsilon(1e-6).margin(1e-8));
      }
    }
  }

 private:
  Array<double> random_array(Shape shape) {
    Array<double> array(shape);
    std::normal_distribution<double> normal;
    for (double& x : array.values) x = normal(random_);
    return array;
  }
  double loss(const std::string& name, std::size_t i, double step) const {
    Arrays<double> moved = tensors_;
    moved[name].values[i] += step;
    forward_(moved);
    double sum = 0;
    for (const std::string& output : outputs_) {
      for (std::size_t k = 0; k < moved[output].values.size(); ++k) {
        sum += moved[output].values[k] * tensors_.at("d" + output).values[k];
      }
    }
    return sum;
  }

  Op forward_;
  std::mt19937 random_{7};
  Arrays<double> tensors_;
  std::vector<std::string> outputs_;
};

}  // namespace

TEST_CASE("reference gradients of the norms are those of differences", "[reference]") {
  GradientCheck([](auto& t) { reference::rms_norm_forward(t, 1e-2F); })
      .input("x", {3, 5})
      .input("weight", {5})
      .output("out", {3, 5})
      .saved("rstd", {3})
      .run([](auto& t) { reference::rms_norm_backward(t, false); }, {"x", "weight"});
  GradientCheck([](auto& t) { reference::layer_norm_forward(t, 1e-2F); })
      .input("x", {3, 5})
      .input("weight", {5})
      .input("bias", {5})
      .output("out", {3, 5})
      .saved("mean", {3})
      .saved("rstd", {3})
      .run([](auto& t) { reference::layer_norm_backward(t, false); }, {"x", "weight", "bias"});
}

TEST_CASE("reference gradients of activations are those of differences", "[reference]") {
  GradientCheck([](auto& t) { reference::swiglu_forward(t); })
      .input("gate_up", {3, 8})
      .output("out", {3, 4})
      .run([](auto& t) { reference::swiglu_backward(t); }, {"gate_up"});
  GradientCheck([](auto& t) { reference::gelu_forward(t); })
      .input("x", {3, 4})
      .output("out", {3, 4})
      .run([](auto& t) { reference::gelu_backward(t); }, {"x"});
}

TEST_CASE("reference gradients of gates are those of differences", "[reference]") {
  for (const std::int64_t gates : {2, 6}) {
    GradientCheck([](auto& t) { reference::gate_mix_forward(t); })
        .input("a", {3, 2, 3})
        .input("b", {3, 2, 3})
        .input("gate_logits", {3, 2 * gates})
        .output("out", {3, 2, 3})
        .run([](auto& t) { reference::gate_mix_backward(t); }, {"a", "b", "gate_logits"});
  }
}

TEST_CASE("reference gradients of the heads' split are those of differences", "[reference]") {
  GradientCheck check([](auto& t) { reference::split_heads_forward(t, 1e-2F); });
  check.input("qkv", {3, 16})
      .output("q", {3, 2, 4})
      .output("k", {3, 1, 4})
      .output("v", {3, 1, 4})
      .input("q_norm_weight", {4})
      .input("k_norm_weight", {4})
      .saved("q_rstd", {3, 2})
      .saved("k_rstd", {3, 1})
      .input("cos", {2, 2})
      .input("sin", {2, 2})
      .indices("positions", {1, 0, 1})
      .run([](auto& t) { reference::split_heads_backward(t); },
           {"qkv", "q_norm_weight", "k_norm_weight"});
}

TEST_CASE("reference gradients of embeddings and biases are those of differences", "[reference]") {
  GradientCheck([](auto& t) { reference::embedding_forward(t); })
      .input("table", {4, 3})
      .input("position_table", {2, 3})
      .indices("ids", {2, 0, 2})
      .indices("positions", {0, 1, 1})
      .output("out", {3, 3})
      .run([](auto& t) { reference::embedding_backward(t); }, {"table", "position_table"});
  GradientCheck([](auto& t) { reference::matmul(t, {}); })
      .input("a", {3, 2})
      .input("b", {2, 4})
      .input("bias", {4})
      .output("out", {3, 4})
      .run([](auto& t) { reference::bias_backward(t); }, {"bias"});
}

TEST_CASE("the reference gradient of the loss is that of differences", "[reference]") {
  const auto losses = [](Arrays<double>& t) {
    reference::cross_entropy(t, {.vocab_size = 4});
    // The z-loss term, which `losses` does not show.
    for (std::int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 4; ++j) sum += std::exp(t["logits"](i, j));
      if (t["targets"](i) >= 0) t["losses"](i) += 0.25 * std::log(sum) * std::log(sum);
    }
  };
  GradientCheck(losses)
      .input("logits", {3, 5})
      .indices("targets", {1, -1, 3})
      .output("losses", {3}, 1)
      .run(
          [](Arrays<double>& t) {
            reference::cross_entropy(t, {.vocab_size = 4, .gradient_scale = 1, .z_loss = 0.25F});
            t["dlogits"] = t["logits"];
          },
          {"logits"});
}

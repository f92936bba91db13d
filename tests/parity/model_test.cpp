#include <cmath>
#include <limits>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

double rms(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

double rms_difference(std::span<const float> x, std::span<const double> exact) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = static_cast<double>(x[i]) - exact[i];
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// The error is at most twice that of plain float loops, plus rounding of the result.
void require_close(const std::string& what, std::span<const float> result,
                   std::span<const float> naive, std::span<const double> exact) {
  REQUIRE(result.size() == exact.size());
  const double error = rms_difference(result, exact);
  const double naive_error = rms_difference(naive, exact);
  const double rounding = 8 * double{std::numeric_limits<float>::epsilon()} * rms(exact);
  INFO(what << ": error " << error << ", of plain float loops " << naive_error << ", size "
            << rms(exact));
  REQUIRE(error <= 2 * naive_error + rounding);
}

void check_case(const ModelCase& c) {
  const auto backend = make_cpu_backend(2);
  Transformer model(c.config, *backend, limits_of(c));
  fill_parameters(model, *backend, 7);
  const NamedValues<float> weights = values_of(model, *backend);
  const NamedValues<double> weights64 = converted<double>(weights);
  const TwinInput input = input_of(c);
  const auto naive = run_twin(c.config, weights, input);
  const auto exact = run_twin(c.config, weights64, input);

  std::vector<float> logits(exact.logits.size());
  std::vector<std::int64_t> rows;
  for (std::size_t t = 0; t < input.inputs.size(); ++t) {
    rows.push_back(static_cast<std::int64_t>(t));
  }
  model.logits(input.packed(), input.draw, rows, logits);
  require_close(c.name + ": logits", logits, naive.logits, exact.logits);

  std::vector<float> losses(exact.losses.size());
  model.forward(input.packed(), input.draw, losses);
  require_close(c.name + ": losses", losses, naive.losses, exact.losses);

  model.zero_gradients();
  model.forward_backward(input.packed(), input.draw, input.loss_scale, input.z_loss);
  const NamedValues<float> gradients = gradients_of(model, *backend);
  const NamedValues<float> naive_gradients = twin_gradients(c.config, weights, input);
  const NamedValues<double> exact_gradients = twin_gradients(c.config, weights64, input);
  REQUIRE(gradients.size() == exact_gradients.size());
  for (const auto& [name, gradient] : gradients) {
    require_close(c.name + ": gradient of " + name, gradient, naive_gradients.at(name),
                  exact_gradients.at(name));
  }
}

}  // namespace

TEST_CASE("logits, losses and every gradient equal the twin's", "[model]") {
  for (const ModelCase& c : model_cases()) check_case(c);
}

TEST_CASE("the model's gradient predicts the change of its loss", "[model]") {
  const ModelCase c = model_cases().back();
  const auto backend = make_cpu_backend(2);
  Transformer model(c.config, *backend, limits_of(c));
  fill_parameters(model, *backend, 7);
  const NamedValues<float> weights = values_of(model, *backend);
  const TwinInput input = input_of(c);
  model.zero_gradients();
  model.forward_backward(input.packed(), input.draw, 1);
  const NamedValues<float> gradients = gradients_of(model, *backend);

  const auto loss_at = [&](float step) {
    for (const Parameter& p : model.parameters()) {
      std::vector<float> moved = weights.at(p.name);
      const RandomSequence direction(3, RandomStream::kCorpus,
                                     static_cast<std::uint32_t>(moved.size()));
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] += step * static_cast<float>(direction.normal(i));
      }
      backend->upload(p.value, moved.data());
    }
    std::vector<float> losses(input.inputs.size());
    return model.forward(input.packed(), input.draw, losses);
  };
  double predicted = 0;
  for (const auto& [name, gradient] : gradients) {
    const RandomSequence direction(3, RandomStream::kCorpus,
                                   static_cast<std::uint32_t>(gradient.size()));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      predicted += static_cast<double>(gradient[i]) * direction.normal(i);
    }
  }
  constexpr float kStep = 2e-4F;
  const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2 * double{kStep});
  REQUIRE(std::abs(measured - predicted) < 1e-3 * std::abs(predicted));
}

#include <cmath>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

NamedValues<double> case_parameters(const ModelCase& c) {
  const auto backend = make_cpu_backend(1);
  Transformer model(c.config, *backend, limits_of(c));
  fill_parameters(model, *backend, 7);
  return converted<double>(values_of(model, *backend));
}

double objective(const ModelCase& c, const NamedValues<double>& parameters) {
  return run_twin(c.config, parameters, input_of(c)).objective;
}

}  // namespace

TEST_CASE("the twin's gradients equal its central differences", "[model]") {
  constexpr double kStep = 1e-5;
  for (const ModelCase& c : model_cases()) {
    NamedValues<double> parameters = case_parameters(c);
    const NamedValues<double> gradients = twin_gradients(c.config, parameters, input_of(c));
    for (auto& [name, values] : parameters) {
      const RandomSequence random(11, RandomStream::kCorpus);
      for (std::uint64_t draw = 0; draw < 2; ++draw) {
        const auto i = static_cast<std::size_t>(random.below(draw, values.size()));
        const double kept = values[i];
        values[i] = kept + kStep;
        const double above = objective(c, parameters);
        values[i] = kept - kStep;
        const double below = objective(c, parameters);
        values[i] = kept;
        INFO(c.name << ": " << name << "[" << i << "]");
        REQUIRE(std::abs((above - below) / (2 * kStep) - gradients.at(name)[i]) < 1e-8);
      }
    }
  }
}

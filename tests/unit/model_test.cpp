#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/json_fields.h"
#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"
#include "support/observed_backend.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

struct Step {
  double loss = 0;
  NamedValues<float> gradients;
  bool operator==(const Step&) const = default;
};

Step step(const ModelCase& c, int threads, const TransformerLimits& limits) {
  const auto backend = make_cpu_backend(threads);
  Transformer model(c.config, *backend, limits);
  fill_parameters(model, *backend, 7);
  const TwinInput input = input_of(c);
  // The second pass of two: what a pass leaves behind must not matter.
  for (int pass = 0; pass < 2; ++pass) {
    model.zero_gradients();
    const double loss =
        model.forward_backward(input.packed(), input.draw, input.loss_scale, input.z_loss);
    if (pass == 1) return {loss, gradients_of(model, *backend)};
  }
  return {};
}

// The model section of configs/gpt_360m_*.json.
ModelConfig gpt_360m(const std::string& pattern) {
  const Json json = read_json_file("configs/gpt_360m_" + pattern + ".json");
  ModelConfig config;
  ConfigFaults faults;
  read_fields(config, json.at("model"), faults);
  faults.throw_if_any();
  return config;
}

}  // namespace

TEST_CASE("recomputation gives the same bits", "[model]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    const Step kept = step(c, 2, limits_of(c));
    REQUIRE(step(c, 2, limits_of(c, RecomputePolicy::Mlp)) == kept);
    REQUIRE(step(c, 2, limits_of(c, RecomputePolicy::Layer)) == kept);
  }
}

TEST_CASE("any number of threads and any room gives the same bits", "[model]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    const Step one = step(c, 1, limits_of(c));
    REQUIRE(step(c, 2, limits_of(c)) == one);
    TransformerLimits roomy = limits_of(c);
    roomy.max_tokens += 37;
    roomy.max_sequences += 3;
    if (roomy.loss_chunk == 0) roomy.loss_chunk = limits_of(c).max_tokens;
    REQUIRE(step(c, 3, roomy) == one);
  }
}

TEST_CASE("evaluation and inference models give the losses of training", "[model]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    const auto backend = make_cpu_backend(2);
    TransformerLimits inference = limits_of(c);
    inference.training = false;
    Transformer trained(c.config, *backend, limits_of(c));
    Transformer evaluated(c.config, *backend, inference);
    fill_parameters(trained, *backend, 7);
    fill_parameters(evaluated, *backend, 7);
    const TwinInput input = input_of(c);
    std::vector<float> losses(input.inputs.size());
    std::vector<float> inferred(input.inputs.size());
    const double sum = trained.forward_backward(input.packed(), input.draw, 1, c.z_loss);
    REQUIRE(trained.forward(input.packed(), input.draw, losses) == sum);
    REQUIRE(evaluated.forward(input.packed(), input.draw, inferred) == sum);
    REQUIRE(losses == inferred);
  }
}

TEST_CASE("score gives the losses of forward, and the most likely token of logits", "[model]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    const auto backend = make_cpu_backend(2);
    TransformerLimits inference = limits_of(c);
    inference.training = false;
    Transformer model(c.config, *backend, inference);
    fill_parameters(model, *backend, 7);
    const TwinInput input = input_of(c);
    std::vector<float> losses(input.inputs.size());
    model.forward(input.packed(), input.draw, losses);

    std::vector<std::int64_t> rows;  // backwards, and the first one twice
    std::vector<std::int32_t> targets;
    for (std::size_t i = input.inputs.size(); i-- > 0;) {
      if (input.targets[i] < 0) continue;
      rows.insert(rows.end(), rows.empty() ? 2 : 1, static_cast<std::int64_t>(i));
      targets.insert(targets.end(), targets.empty() ? 2 : 1, input.targets[i]);
    }
    std::vector<float> scored(rows.size());
    std::vector<std::int32_t> most_likely(rows.size());
    model.score(input.packed(), input.draw, rows, targets, scored, most_likely);
    const auto vocab = static_cast<std::size_t>(c.config.vocab_size);
    std::vector<float> logits(rows.size() * vocab);
    model.logits(input.packed(), input.draw, rows, logits);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      REQUIRE(scored[i] == losses[static_cast<std::size_t>(rows[i])]);
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab));
      REQUIRE(most_likely[i] == best - row);
    }
  }
}

TEST_CASE("gradients add up over micro-batches", "[model]") {
  const ModelCase whole{"whole", tiny_model(), {9, 14, 5}};
  const auto backend = make_cpu_backend(2);
  Transformer model(whole.config, *backend, limits_of(whole));
  fill_parameters(model, *backend, 7);
  const TwinInput input = input_of(whole);
  model.zero_gradients();
  const double loss = model.forward_backward(input.packed(), input.draw, 1);
  const NamedValues<float> together = gradients_of(model, *backend);

  model.zero_gradients();
  double split_loss = 0;
  for (std::size_t s = 0; s < whole.lengths.size(); ++s) {
    const auto begin = static_cast<std::size_t>(input.cu_seqlens[s]);
    const auto length = static_cast<std::size_t>(whole.lengths[s]);
    const std::vector<std::int32_t> offsets{0, whole.lengths[s]};
    const PackedTokens part{std::span(input.inputs).subspan(begin, length),
                            std::span(input.targets).subspan(begin, length),
                            std::span(input.positions).subspan(begin, length), offsets,
                            static_cast<std::uint32_t>(s)};
    split_loss += model.forward_backward(part, input.draw, 1);
  }
  REQUIRE(split_loss == Approx(loss).epsilon(1e-6));
  for (const auto& [name, gradient] : gradients_of(model, *backend)) {
    double scale = 0;
    for (const float g : together.at(name)) scale = std::max(scale, std::abs(double{g}));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      INFO(name << "[" << i << "]");
      REQUIRE(std::abs(double{gradient[i]} - double{together.at(name)[i]}) < 1e-5 * scale);
    }
  }
}

TEST_CASE("logits come for the rows that are asked for, in their order", "[model]") {
  const ModelCase c{"rows", tiny_model(), {9, 5}, 0, 3};
  const auto backend = make_cpu_backend(1);
  Transformer model(c.config, *backend, limits_of(c));
  fill_parameters(model, *backend, 7);
  const TwinInput input = input_of(c);
  const auto logits = [&](const std::vector<std::int64_t>& rows) {
    std::vector<float> out(rows.size() * 61);
    model.logits(input.packed(), input.draw, rows, out);
    return out;
  };
  const std::vector<float> some = logits({13, 0, 4, 4});
  std::vector<float> one_by_one;
  for (const std::int64_t row : {13, 0, 4, 4}) {
    const std::vector<float> single = logits({row});
    one_by_one.insert(one_by_one.end(), single.begin(), single.end());
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    REQUIRE(some[i] == Approx(one_by_one[i]).margin(1e-5));
  }
}

TEST_CASE("gates are shown for gated layers, those of sa first", "[model]") {
  const std::vector<ModelCase> cases = model_cases();
  const auto hybrid = std::find_if(cases.begin(), cases.end(), [](const ModelCase& c) {
    return c.name == "hybrid of five patterns";
  });
  REQUIRE(hybrid != cases.end());
  const auto backend = make_cpu_backend(1);
  Transformer model(hybrid->config, *backend, limits_of(*hybrid));
  fill_parameters(model, *backend, 7);
  const std::vector<float> biases{0.5F, -1, 2, 0.25F, -3, 4, 1, 0};
  for (const Parameter& parameter : model.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(parameter.value.elements()), 0);
    const bool sa = parameter.name.find("gate_sa.") != std::string::npos;
    const bool swa = parameter.name.find("gate_swa.") != std::string::npos;
    if (!sa && !swa) continue;
    if (parameter.name.find("bias") != std::string::npos) {
      std::copy_n(biases.begin() + (sa ? 0 : 4), 4, values.begin());
    }
    backend->upload(parameter.value, values.data());
  }
  const TwinInput input = input_of(*hybrid);
  int shown = 0;
  model.visit_gates(input.packed(), input.draw,
                    [&](std::int64_t layer, std::span<const float> logits) {
                      ++shown;
                      REQUIRE(layer == 2);
                      REQUIRE(logits.size() == 8 * input.inputs.size());
                      for (std::size_t i = 0; i < logits.size(); ++i) {
                        REQUIRE(logits[i] == biases[i % 8]);
                      }
                    });
  REQUIRE(shown == 1);
}

// What lets ranks add up the gradients of late layers while those of early ones are computed.
TEST_CASE("a bucket's gradients are complete when it is ready, and others' not yet", "[model]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    const auto backend = make_cpu_backend(1);
    Transformer model(c.config, *backend, limits_of(c));
    fill_parameters(model, *backend, 7);
    model.zero_gradients();
    const TensorView slab = model.gradient_slab();
    const auto buckets = model.buckets();
    REQUIRE(std::ssize(buckets) == c.config.layers + 2);
    std::vector<std::vector<float>> seen;  // the whole slab, as each became ready
    std::vector<std::size_t> order;
    double sum = 0;
    const TwinInput input = input_of(c);
    model.queue_forward_backward(input.packed(), input.draw, input.loss_scale, input.z_loss,
                                 {TensorView(&sum, DType::F64, {1})}, [&](std::size_t bucket) {
                                   order.push_back(bucket);
                                   seen.push_back(download(*backend, slab));
                                 });
    const std::vector<float> last = download(*backend, slab);
    std::int64_t end = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      REQUIRE(buckets[b].begin == end);
      end = buckets[b].end;
      REQUIRE(end % 16 == 0);
      const std::size_t turn = buckets.size() - 1 - b;
      REQUIRE(order[turn] == b);
      const std::vector<float>& then = seen[turn];
      REQUIRE(std::equal(last.begin() + buckets[b].begin, last.begin() + end,
                         then.begin() + buckets[b].begin));
      const bool rest_is_open =
          !std::equal(last.begin(), last.begin() + buckets[b].begin, then.begin());
      REQUIRE(rest_is_open == (b > 0));
    }
    REQUIRE(end == slab.elements());
  }
}

TEST_CASE("everything is allocated at construction, and memory() says how much", "[model]") {
  for (const ModelCase& c : model_cases()) {
    for (const RecomputePolicy policy :
         {RecomputePolicy::None, RecomputePolicy::Mlp, RecomputePolicy::Layer}) {
      for (const bool training : {true, false}) {
        TransformerLimits limits = limits_of(c, policy);
        limits.training = training;
        const auto cpu = make_cpu_backend(1);
        ObservedBackend backend(*cpu);
        Transformer model(c.config, backend, limits);
        std::int64_t planned = 0;
        for (const MemoryLine& line : Transformer::memory(c.config, limits)) planned += line.bytes;
        std::int64_t allocated = 0;
        for (const auto& [name, bytes] : backend.allocations()) allocated += bytes;
        INFO(c.name);
        REQUIRE(planned == allocated);

        const std::size_t slabs = backend.allocations().size();
        const TwinInput input = input_of(c);
        std::vector<float> losses(input.inputs.size());
        model.forward(input.packed(), input.draw, losses);
        if (training) model.forward_backward(input.packed(), input.draw, 1);
        REQUIRE(backend.allocations().size() == slabs);
      }
    }
  }
}

TEST_CASE("the reference model has 359.8M parameters and fits in memory", "[model]") {
  const auto bytes = [](const ModelConfig& config, RecomputePolicy policy) {
    std::int64_t sum = 0;
    for (const MemoryLine& line : Transformer::memory(
             config, {.max_tokens = 2048, .max_sequences = 1, .recompute = policy})) {
      sum += line.bytes;
    }
    return static_cast<double>(sum) / 1e9;
  };
  const ModelCost cost = Transformer::cost(gpt_360m("full"), 2048);
  REQUIRE(cost.parameters == 359'794'688);
  REQUIRE(cost.matmul_parameters == cost.parameters - 49 * 1024);
  REQUIRE(Transformer::cost(gpt_360m("swa"), 2048).parameters == cost.parameters);
  REQUIRE(Transformer::cost(gpt_360m("sa"), 2048).parameters == cost.parameters);
  // Two gates a head in each layer, with a bias each.
  REQUIRE(Transformer::cost(gpt_360m("sa_swa"), 2048).parameters ==
          cost.parameters + 24 * 2 * 16 * (1024 + 1));
  REQUIRE(cost.mean_visible_keys == Approx(1024.5));
  REQUIRE(cost.flops_per_token == Approx(2.51e9).epsilon(0.01));

  const double weights_and_gradients = 2 * 4 * 0.36;
  REQUIRE(bytes(gpt_360m("full"), RecomputePolicy::None) < weights_and_gradients + 3.6);
  REQUIRE(bytes(gpt_360m("sa_swa"), RecomputePolicy::None) < weights_and_gradients + 4.2);
  REQUIRE(bytes(gpt_360m("full"), RecomputePolicy::Mlp) < weights_and_gradients + 1.8);
  REQUIRE(bytes(gpt_360m("full"), RecomputePolicy::Layer) < weights_and_gradients + 0.6);
}

TEST_CASE("tokens that do not fit the model are refused", "[model]") {
  const ModelCase c{"refused", tiny_model(), {6, 4}};
  const auto backend = make_cpu_backend(1);
  Transformer model(c.config, *backend, limits_of(c));
  const TwinInput good = input_of(c);
  const auto message = [&](const TwinInput& input) {
    std::vector<float> losses(input.inputs.size());
    try {
      model.forward(input.packed(), input.draw, losses);
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::Data);
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(message(good).empty());
  TwinInput bad = good;
  bad.inputs[3] = 61;
  REQUIRE(message(bad).starts_with("token id 61 (token 3"));
  bad = good;
  bad.targets[0] = -2;
  REQUIRE(message(bad).starts_with("target -2"));
  bad = good;
  bad.positions[1] = 32;
  REQUIRE(message(bad).starts_with("position 32"));
  bad = good;
  bad.cu_seqlens = {0, 5, 5, 10};
  REQUIRE_FALSE(message(bad).empty());
  bad = random_twin_input(c.config, {6, 5}, 1);
  REQUIRE(message(bad).find("has room for 10 in 2") != std::string::npos);
  bad = good;
  bad.targets.pop_back();
  REQUIRE_FALSE(message(bad).empty());
}

#include "support/model_twin.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "support/attention_reference.h"

namespace flywheel::test {
namespace {

using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

template <class Scalar>
struct RealOf {
  using Type = Scalar;
};
template <class Real>
struct RealOf<Traced<Real>> {
  using Type = Real;
};

template <class Scalar>
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<Scalar> data;

  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), data(r * c) {}
  Scalar& operator()(std::size_t r, std::size_t c) { return data[r * columns + c]; }
  const Scalar& operator()(std::size_t r, std::size_t c) const { return data[r * columns + c]; }
};

template <class Scalar>
class Twin {
  using Real = typename RealOf<Scalar>::Type;
  using M = Matrix<Scalar>;
  using Vector = std::vector<Scalar>;

 public:
  Twin(const ModelConfig& config, const NamedValues<Scalar>& parameters, const TwinInput& input)
      : c_(with_defaults(config)),
        parameters_(parameters),
        input_(input),
        gpt2_(is_gpt2_family(c_)),
        tokens_(input.inputs.size()),
        d_(size(c_.hidden_size)),
        heads_(size(c_.heads)),
        kv_heads_(size(c_.kv_heads)),
        head_dim_(size(c_.head_dim)) {}

  TwinOutput<Scalar> run() {
    M x = embed();
    const auto layers = resolve_layers(c_);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      prefix_ = gpt2_ ? "transformer.h." : "model.layers.";
      prefix_ += std::to_string(i) + ".";
      add(x, attention(norm(x, prefix_ + (gpt2_ ? "ln_1" : "input_layernorm")), layers[i], i));
      add(x, mlp(norm(x, prefix_ + (gpt2_ ? "ln_2" : "post_attention_layernorm"))));
    }
    return losses(norm(x, gpt2_ ? "transformer.ln_f" : "model.norm"));
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static Real real(double x) { return static_cast<Real>(x); }

  const Vector& parameter(const std::string& name) const { return parameters_.at(name); }
  const Vector* bias(const std::string& name) const {
    const auto found = parameters_.find(name + ".bias");
    return found == parameters_.end() ? nullptr : &found->second;
  }

  static void add(M& x, const M& y) {
    for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] += y.data[i];
  }

  M embed() const {
    const Vector& table = parameter(gpt2_ ? "transformer.wte.weight" : "model.embed_tokens.weight");
    M x(tokens_, d_);
    for (std::size_t t = 0; t < tokens_; ++t) {
      for (std::size_t i = 0; i < d_; ++i) {
        x(t, i) = table[static_cast<std::size_t>(input_.inputs[t]) * d_ + i];
        if (c_.position == PositionKind::Learned) {
          const Vector& positions =
              parameter(gpt2_ ? "transformer.wpe.weight" : "model.embed_positions.weight");
          x(t, i) += positions[static_cast<std::size_t>(input_.positions[t]) * d_ + i];
        }
      }
    }
    return x;
  }

  M norm(const M& x, const std::string& name) const {
    M y(x.rows, x.columns);
    const Vector& weight = parameter(name + ".weight");
    const Real n = static_cast<Real>(x.columns);
    for (std::size_t t = 0; t < x.rows; ++t) {
      Scalar mean = Real(0);
      if (c_.norm == NormKind::LayerNorm) {
        for (std::size_t i = 0; i < x.columns; ++i) mean += x(t, i);
        mean = mean / Scalar(n);
      }
      Scalar squares = Real(0);
      for (std::size_t i = 0; i < x.columns; ++i) {
        squares += (x(t, i) - mean) * (x(t, i) - mean);
      }
      const Scalar root = sqrt(squares / Scalar(n) + Scalar(real(c_.norm_eps)));
      for (std::size_t i = 0; i < x.columns; ++i) {
        y(t, i) = (x(t, i) - mean) / root * weight[i];
        if (const Vector* b = bias(name)) y(t, i) += (*b)[i];
      }
    }
    return y;
  }

  // [out, in] or, for GPT-2's Conv1D, [in, out].
  M linear(const M& x, const std::string& name, std::size_t out, bool in_out) const {
    M y(x.rows, out);
    const Vector& weight = parameter(name + ".weight");
    const Vector* b = bias(name);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t o = 0; o < out; ++o) {
        Scalar sum = Real(0);
        for (std::size_t i = 0; i < x.columns; ++i) {
          sum += x(t, i) * weight[in_out ? i * out + o : o * x.columns + i];
        }
        if (b != nullptr) sum += (*b)[o];
        y(t, o) = sum;
      }
    }
    return y;
  }

  static M slice(const M& x, std::size_t begin, std::size_t columns) {
    M y(x.rows, columns);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < columns; ++i) y(t, i) = x(t, begin + i);
    }
    return y;
  }

  void norm_heads(M& x, const std::string& name) const {
    const Vector& weight = parameter(name);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t begin = 0; begin < x.columns; begin += head_dim_) {
        Scalar squares = Real(0);
        for (std::size_t i = 0; i < head_dim_; ++i) squares += x(t, begin + i) * x(t, begin + i);
        const Scalar root =
            sqrt(squares / Scalar(static_cast<Real>(head_dim_)) + Scalar(real(c_.norm_eps)));
        for (std::size_t i = 0; i < head_dim_; ++i) {
          x(t, begin + i) = x(t, begin + i) / root * weight[i];
        }
      }
    }
  }

  Real frequency(std::size_t m) const {
    const RopeScalingConfig& s = c_.rope_scaling;
    const Real pi = std::numbers::pi_v<Real>;
    const Real f =
        std::pow(real(c_.rope_theta), -static_cast<Real>(2 * m) / static_cast<Real>(head_dim_));
    const Real slow = f / real(s.factor);
    if (s.kind == RopeScalingKind::None) return f;
    if (s.kind == RopeScalingKind::Linear) return slow;
    const Real turns = static_cast<Real>(s.original_max_position_embeddings) * f / (2 * pi);
    const Real share =
        (turns - real(s.low_freq_factor)) / (real(s.high_freq_factor) - real(s.low_freq_factor));
    const Real clamped = std::clamp(share, Real(0), Real(1));
    return (1 - clamped) * slow + clamped * f;
  }

  void rotate(M& x) const {
    const std::size_t half = head_dim_ / 2;
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t begin = 0; begin < x.columns; begin += head_dim_) {
        for (std::size_t m = 0; m < half; ++m) {
          const Real angle = static_cast<Real>(input_.positions[t]) * frequency(m);
          const Scalar cos(std::cos(angle));
          const Scalar sin(std::sin(angle));
          const Scalar a = x(t, begin + m);
          const Scalar b = x(t, begin + m + half);
          x(t, begin + m) = a * cos - b * sin;
          x(t, begin + m + half) = b * cos + a * sin;
        }
      }
    }
  }

  M attention(const M& x, const LayerAttention& layer, std::size_t number) const {
    const std::string self = prefix_ + (gpt2_ ? "attn." : "self_attn.");
    const std::size_t width = heads_ * head_dim_;
    const std::size_t kv_width = kv_heads_ * head_dim_;
    M q(0, 0), k(0, 0), v(0, 0);
    if (gpt2_) {
      const M qkv = linear(x, self + "c_attn", width + 2 * kv_width, true);
      q = slice(qkv, 0, width);
      k = slice(qkv, width, kv_width);
      v = slice(qkv, width + kv_width, kv_width);
    } else {
      q = linear(x, self + "q_proj", width, false);
      k = linear(x, self + "k_proj", kv_width, false);
      v = linear(x, self + "v_proj", kv_width, false);
    }
    if (c_.qk_norm) {
      norm_heads(q, self + "q_norm.weight");
      norm_heads(k, self + "k_norm.weight");
    }
    if (c_.position == PositionKind::Rope) {
      rotate(q);
      rotate(k);
    }
    M out = path(q, k, v, layer.path, number);
    if (layer.gated) {
      M second = path(q, k, v, layer.swa_path, number);
      apply_gate(out, x, self + "gate_sa", layer.gate);
      apply_gate(second, x, self + "gate_swa", layer.gate);
      add(out, second);
    }
    return linear(out, self + (gpt2_ ? "c_proj" : "o_proj"), d_, gpt2_);
  }

  void apply_gate(M& out, const M& x, const std::string& name, GateKind kind) const {
    const std::size_t width = kind == GateKind::Head ? heads_ : heads_ * head_dim_;
    const M logits = linear(x, name, width, false);
    for (std::size_t t = 0; t < out.rows; ++t) {
      for (std::size_t i = 0; i < out.columns; ++i) {
        const Scalar logit = logits(t, kind == GateKind::Head ? i / head_dim_ : i);
        out(t, i) = out(t, i) / (Scalar(Real(1)) + exp(-logit));
      }
    }
  }

  M path(const M& q, const M& k, const M& v, const AttentionPattern& pattern,
         std::size_t layer) const {
    M out(tokens_, heads_ * head_dim_);
    for (std::size_t s = 0; s + 1 < input_.cu_seqlens.size(); ++s) {
      const std::int64_t n = input_.cu_seqlens[s + 1] - input_.cu_seqlens[s];
      const PermutationKey key{.seed = input_.draw.seed,
                               .stream = input_.draw.stream,
                               .layer = static_cast<std::uint32_t>(layer),
                               .draw = input_.draw.draw};
      const auto number =
          pattern.per_sequence ? input_.first_sequence + static_cast<std::uint32_t>(s) : 0U;
      const std::int64_t prompt =
          input_.prompt_lengths.empty() ? n : std::int64_t{input_.prompt_lengths[s]};
      const std::vector<std::int32_t> sigma = reference_permutation(key, number, prompt);
      const std::size_t begin = size(input_.cu_seqlens[s]);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::size_t h = 0; h < heads_; ++h) {
          const bool chooses = pattern.kind == AttentionKind::Moba && i < prompt;
          const std::vector<bool> blocks =
              chooses ? chosen_blocks(q, k, pattern, begin, i, h) : std::vector<bool>();
          std::vector<std::size_t> keys;
          for (std::int64_t j = 0; j <= i; ++j) {
            const bool sees = chooses      ? blocks[size(j / pattern.block)]
                              : i < prompt ? visible(pattern, sigma, prompt, i, j)
                                           : decoded_sees(pattern, i, j);
            if (sees) keys.push_back(begin + size(j));
          }
          attend(out, q, k, v, begin + size(i), h, keys);
        }
      }
    }
    return out;
  }

  // moba: which blocks the sequence's query i sees. Error Internal where rounding could choose
  // another one, as gradients then have nothing to be compared with.
  std::vector<bool> chosen_blocks(const M& q, const M& k, const AttentionPattern& pattern,
                                  std::size_t begin, std::int64_t i, std::size_t head) const {
    const std::size_t kv = head / (heads_ / kv_heads_) * head_dim_;
    const std::size_t own = size(i / pattern.block);
    std::vector<std::pair<double, std::size_t>> gates;  // negative, so that the best is first
    for (std::size_t b = 0; b < own; ++b) {
      double gate = 0;
      for (std::size_t j = b * size(pattern.block); j < (b + 1) * size(pattern.block); ++j) {
        for (std::size_t d = 0; d < head_dim_; ++d) {
          gate += double{value_of(q(begin + size(i), head * head_dim_ + d))} *
                  double{value_of(k(begin + j, kv + d))};
        }
      }
      gates.emplace_back(-gate / static_cast<double>(pattern.block), b);
    }
    std::sort(gates.begin(), gates.end());
    const std::size_t places = size(pattern.top_k) - 1;
    if (0 < places && places < gates.size()) {
      require(gates[places].first - gates[places - 1].first > 2e-5, ErrorKind::Internal,
              "blocks {} and {} fit query {} about equally well; take another seed",
              gates[places - 1].second, gates[places].second, i);
    }
    std::vector<bool> seen(own + 1, false);
    seen[own] = true;
    for (std::size_t p = 0; p < std::min(places, gates.size()); ++p) seen[gates[p].second] = true;
    return seen;
  }

  // docs/generation.md
  bool decoded_sees(const AttentionPattern& pattern, std::int64_t i, std::int64_t j) const {
    return input_.decode_attention == DecodeAttention::Full ||
           pattern.kind == AttentionKind::Full || pattern.kind == AttentionKind::Moba ||
           i - j < pattern.window;
  }

  void attend(M& out, const M& q, const M& k, const M& v, std::size_t row, std::size_t head,
              const std::vector<std::size_t>& keys) const {
    const std::size_t kv = head / (heads_ / kv_heads_) * head_dim_;
    const Scalar scale(1 / std::sqrt(static_cast<Real>(head_dim_)));
    Vector scores;
    Real highest = -std::numeric_limits<Real>::infinity();
    for (const std::size_t key : keys) {
      Scalar score = Real(0);
      for (std::size_t i = 0; i < head_dim_; ++i) {
        score += q(row, head * head_dim_ + i) * k(key, kv + i);
      }
      scores.push_back(score * scale);
      highest = std::max(highest, value_of(scores.back()));
    }
    Scalar sum = Real(0);
    for (Scalar& score : scores) {
      score = exp(score - Scalar(highest));
      sum += score;
    }
    for (std::size_t i = 0; i < head_dim_; ++i) {
      Scalar mix = Real(0);
      for (std::size_t j = 0; j < keys.size(); ++j) mix += scores[j] / sum * v(keys[j], kv + i);
      out(row, head * head_dim_ + i) = mix;
    }
  }

  M mlp(const M& x) const {
    const std::string name = prefix_ + "mlp.";
    const std::size_t f = size(c_.intermediate_size);
    M act(0, 0);
    if (c_.mlp == MlpKind::Swiglu) {
      act = linear(x, name + "gate_proj", f, false);
      const M up = linear(x, name + "up_proj", f, false);
      for (std::size_t i = 0; i < act.data.size(); ++i) {
        act.data[i] = act.data[i] / (Scalar(Real(1)) + exp(-act.data[i])) * up.data[i];
      }
    } else {
      act = linear(x, name + (gpt2_ ? "c_fc" : "up_proj"), f, gpt2_);
      const Scalar root(std::sqrt(2 / std::numbers::pi_v<Real>));
      for (Scalar& z : act.data) {
        const Scalar inner = root * (z + Scalar(real(0.044715)) * z * z * z);
        z = Scalar(real(0.5)) * z * (Scalar(Real(1)) + tanh(inner));
      }
    }
    return linear(act, name + (gpt2_ ? "c_proj" : "down_proj"), d_, gpt2_);
  }

  TwinOutput<Scalar> losses(const M& x) const {
    const std::string embedding = gpt2_ ? "transformer.wte" : "model.embed_tokens";
    const M logits =
        linear(x, c_.tie_embeddings ? embedding : "lm_head", size(c_.vocab_size), false);
    TwinOutput<Scalar> output{logits.data, Vector(tokens_, Scalar(Real(0))), Scalar(Real(0))};
    for (std::size_t t = 0; t < tokens_; ++t) {
      if (input_.targets[t] < 0) continue;
      Real highest = -std::numeric_limits<Real>::infinity();
      for (std::size_t i = 0; i < logits.columns; ++i) {
        highest = std::max(highest, value_of(logits(t, i)));
      }
      Scalar sum = Real(0);
      for (std::size_t i = 0; i < logits.columns; ++i) sum += exp(logits(t, i) - Scalar(highest));
      const Scalar lse = log(sum) + Scalar(highest);
      output.losses[t] = lse - logits(t, static_cast<std::size_t>(input_.targets[t]));
      output.objective += output.losses[t] + Scalar(real(input_.z_loss)) * lse * lse;
    }
    output.objective = output.objective * Scalar(real(input_.loss_scale));
    return output;
  }

  const ModelConfig c_;
  const NamedValues<Scalar>& parameters_;
  const TwinInput& input_;
  bool gpt2_;
  std::size_t tokens_, d_, heads_, kv_heads_, head_dim_;
  std::string prefix_;
};

}  // namespace

template <class Scalar>
TwinOutput<Scalar> run_twin(const ModelConfig& config, const NamedValues<Scalar>& parameters,
                            const TwinInput& input) {
  return Twin<Scalar>(config, parameters, input).run();
}

template <class Real>
NamedValues<Real> twin_gradients(const ModelConfig& config, const NamedValues<Real>& parameters,
                                 const TwinInput& input) {
  using Number = Traced<Real>;
  Number::clear();
  NamedValues<Number> variables;
  for (const auto& [name, values] : parameters) {
    for (const Real value : values) variables[name].push_back(Number::variable(value));
  }
  const Number objective = run_twin(config, variables, input).objective;
  const std::vector<Real> adjoints = Number::gradients(objective);
  NamedValues<Real> gradients;
  for (const auto& [name, numbers] : variables) {
    for (const Number& number : numbers) {
      gradients[name].push_back(adjoints[static_cast<std::size_t>(number.node())]);
    }
  }
  Number::clear();
  return gradients;
}

TwinInput random_twin_input(const ModelConfig& config, const std::vector<std::int32_t>& lengths,
                            std::uint64_t seed) {
  const RandomSequence random(seed, RandomStream::kCorpus);
  TwinInput input;
  input.cu_seqlens.push_back(0);
  std::uint64_t draws = 0;
  const auto token = [&] {
    return static_cast<std::int32_t>(
        random.below(draws++, static_cast<std::uint64_t>(config.vocab_size)));
  };
  for (const std::int32_t length : lengths) {
    for (std::int32_t position = 0; position < length; ++position) {
      input.inputs.push_back(token());
      input.targets.push_back(random.below(draws++, 8) == 0 ? -1 : token());
      input.positions.push_back(position);
    }
    input.cu_seqlens.push_back(input.cu_seqlens.back() + length);
  }
  input.draw = {.seed = seed, .draw = 3};
  return input;
}

template TwinOutput<float> run_twin(const ModelConfig&, const NamedValues<float>&,
                                    const TwinInput&);
template TwinOutput<double> run_twin(const ModelConfig&, const NamedValues<double>&,
                                     const TwinInput&);
template NamedValues<float> twin_gradients(const ModelConfig&, const NamedValues<float>&,
                                           const TwinInput&);
template NamedValues<double> twin_gradients(const ModelConfig&, const NamedValues<double>&,
                                            const TwinInput&);

}  // namespace flywheel::test

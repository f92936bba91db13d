#include "support/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace flywheel::test::reference {
namespace {

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

template <class Real>
bool has(const Arrays<Real>& t, const char* name) {
  return t.count(name) > 0;
}

// dx of one row of an RMS norm, and its part of dweight.
template <class Real>
void rms_norm_backward_row(Real* dx, Real* dweight, const Real* dout, const Real* x, Real rstd,
                           const Real* weight, std::int64_t width, bool accumulate) {
  Real dot = 0;
  for (std::int64_t i = 0; i < width; ++i) dot += dout[i] * weight[i] * x[i] * rstd;
  const Real mean = dot / static_cast<Real>(width);
  for (std::int64_t i = 0; i < width; ++i) {
    const Real y = x[i] * rstd;
    dweight[i] += dout[i] * y;
    const Real gradient = rstd * (dout[i] * weight[i] - y * mean);
    dx[i] = accumulate ? dx[i] + gradient : gradient;
  }
}

}  // namespace

template <class Real>
void matmul(Arrays<Real>& t, const MatmulOptions& options) {
  auto& out = t["out"];
  auto& a = t["a"];
  auto& b = t["b"];
  const std::int64_t depth = a.extent(options.transpose_a ? 0 : 1);
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t j = 0; j < out.extent(1); ++j) {
      Real sum = options.accumulate ? out(i, j) : has(t, "bias") ? t["bias"](j) : Real{0};
      for (std::int64_t k = 0; k < depth; ++k) {
        sum +=
            (options.transpose_a ? a(k, i) : a(i, k)) * (options.transpose_b ? b(j, k) : b(k, j));
      }
      out(i, j) = sum;
    }
  }
}

template <class Real>
void bias_backward(Arrays<Real>& t) {
  auto& dout = t["dout"];
  for (std::int64_t i = 0; i < dout.extent(0); ++i) {
    for (std::int64_t j = 0; j < dout.extent(1); ++j) t["dbias"](j) += dout(i, j);
  }
}

template <class Real>
void embedding_forward(Arrays<Real>& t) {
  auto& out = t["out"];
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t j = 0; j < out.extent(1); ++j) {
      out(i, j) = t["table"](t["ids"].integer(i), j);
      if (has(t, "position_table")) out(i, j) += t["position_table"](t["positions"].integer(i), j);
    }
  }
}

template <class Real>
void embedding_backward(Arrays<Real>& t) {
  auto& dout = t["dout"];
  for (std::int64_t i = 0; i < dout.extent(0); ++i) {
    for (std::int64_t j = 0; j < dout.extent(1); ++j) {
      t["dtable"](t["ids"].integer(i), j) += dout(i, j);
      if (has(t, "dposition_table"))
        t["dposition_table"](t["positions"].integer(i), j) += dout(i, j);
    }
  }
}

template <class Real>
void rms_norm_forward(Arrays<Real>& t, float eps) {
  auto& x = t["x"];
  const std::int64_t width = x.extent(1);
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    Real squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += x(i, j) * x(i, j);
    const Real rstd = 1 / std::sqrt(squares / static_cast<Real>(width) + static_cast<Real>(eps));
    t["rstd"](i) = rstd;
    for (std::int64_t j = 0; j < width; ++j) t["out"](i, j) = x(i, j) * rstd * t["weight"](j);
  }
}

template <class Real>
void add_rms_norm_forward(Arrays<Real>& t, float eps) {
  auto& x = t["x"];
  Array<Real> sum(x.shape);
  for (std::int64_t i = 0; i < x.shape.elements(); ++i) sum(i) = x(i) + t["residual"](i);
  std::swap(x, sum);
  rms_norm_forward(t, eps);
  std::swap(x, sum);
  t["sum"] = sum;
}

template <class Real>
void rms_norm_backward(Arrays<Real>& t, bool accumulate) {
  auto& x = t["x"];
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    rms_norm_backward_row(&t["dx"](i, 0), t["dweight"].values.data(), &t["dout"](i, 0), &x(i, 0),
                          t["rstd"](i), t["weight"].values.data(), x.extent(1), accumulate);
  }
}

template <class Real>
void layer_norm_forward(Arrays<Real>& t, float eps) {
  auto& x = t["x"];
  const std::int64_t width = x.extent(1);
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    Real sum = 0;
    for (std::int64_t j = 0; j < width; ++j) sum += x(i, j);
    const Real mean = sum / static_cast<Real>(width);
    Real squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += (x(i, j) - mean) * (x(i, j) - mean);
    const Real rstd = 1 / std::sqrt(squares / static_cast<Real>(width) + static_cast<Real>(eps));
    t["mean"](i) = mean;
    t["rstd"](i) = rstd;
    for (std::int64_t j = 0; j < width; ++j) {
      t["out"](i, j) = (x(i, j) - mean) * rstd * t["weight"](j);
      if (has(t, "bias")) t["out"](i, j) += t["bias"](j);
    }
  }
}

template <class Real>
void layer_norm_backward(Arrays<Real>& t, bool accumulate) {
  auto& x = t["x"];
  auto& dout = t["dout"];
  const std::int64_t width = x.extent(1);
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    const auto y = [&](std::int64_t j) { return (x(i, j) - t["mean"](i)) * t["rstd"](i); };
    Real sum = 0;
    Real dot = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      sum += dout(i, j) * t["weight"](j);
      dot += dout(i, j) * t["weight"](j) * y(j);
    }
    const Real mean_g = sum / static_cast<Real>(width);
    const Real mean_gy = dot / static_cast<Real>(width);
    for (std::int64_t j = 0; j < width; ++j) {
      t["dweight"](j) += dout(i, j) * y(j);
      if (has(t, "dbias")) t["dbias"](j) += dout(i, j);
      const Real gradient = t["rstd"](i) * (dout(i, j) * t["weight"](j) - mean_g - y(j) * mean_gy);
      t["dx"](i, j) = accumulate ? t["dx"](i, j) + gradient : gradient;
    }
  }
}

template <class Real>
void split_heads_forward(Arrays<Real>& t, float eps) {
  std::int64_t first = 0;  // column of qkv
  for (const std::string kind : {"q", "k", "v"}) {
    auto& out = t[kind];
    const std::int64_t size = out.extent(2);
    const bool norm = kind != "v" && has(t, "q_norm_weight");
    const bool rope = kind != "v" && has(t, "cos");
    for (std::int64_t token = 0; token < out.extent(0); ++token) {
      for (std::int64_t head = 0; head < out.extent(1); ++head) {
        const std::int64_t column = first + head * size;
        Real squares = 0;
        for (std::int64_t m = 0; m < size; ++m) {
          out(token, head, m) = t["qkv"](token, column + m);
          squares += out(token, head, m) * out(token, head, m);
        }
        if (norm) {
          const Real rstd =
              1 / std::sqrt(squares / static_cast<Real>(size) + static_cast<Real>(eps));
          t[kind + "_rstd"](token, head) = rstd;
          for (std::int64_t m = 0; m < size; ++m) {
            out(token, head, m) = out(token, head, m) * rstd * t[kind + "_norm_weight"](m);
          }
        }
        for (std::int64_t m = 0; rope && m < size / 2; ++m) {
          const Real c = t["cos"](t["positions"].integer(token), m);
          const Real s = t["sin"](t["positions"].integer(token), m);
          const Real a = out(token, head, m);
          const Real b = out(token, head, m + size / 2);
          out(token, head, m) = a * c - b * s;
          out(token, head, m + size / 2) = b * c + a * s;
        }
      }
    }
    first += out.extent(1) * size;
  }
}

template <class Real>
void split_heads_backward(Arrays<Real>& t) {
  std::int64_t first = 0;
  for (const std::string kind : {"q", "k", "v"}) {
    auto& dout = t["d" + kind];
    const std::int64_t size = dout.extent(2);
    const bool norm = kind != "v" && has(t, "q_norm_weight");
    const bool rope = kind != "v" && has(t, "cos");
    for (std::int64_t token = 0; token < dout.extent(0); ++token) {
      for (std::int64_t head = 0; head < dout.extent(1); ++head) {
        std::vector<Real> gradient(static_cast<std::size_t>(size));
        for (std::int64_t m = 0; m < size; ++m) {
          gradient[static_cast<std::size_t>(m)] = dout(token, head, m);
        }
        for (std::int64_t m = 0; rope && m < size / 2; ++m) {
          const Real c = t["cos"](t["positions"].integer(token), m);
          const Real s = t["sin"](t["positions"].integer(token), m);
          const Real a = dout(token, head, m);
          const Real b = dout(token, head, m + size / 2);
          gradient[static_cast<std::size_t>(m)] = a * c + b * s;
          gradient[static_cast<std::size_t>(m + size / 2)] = b * c - a * s;
        }
        Real* dx = &t["dqkv"](token, first + head * size);
        if (norm) {
          rms_norm_backward_row(dx, t["d" + kind + "_norm_weight"].values.data(), gradient.data(),
                                &t["qkv"](token, first + head * size),
                                t[kind + "_rstd"](token, head),
                                t[kind + "_norm_weight"].values.data(), size, false);
        } else {
          std::copy(gradient.begin(), gradient.end(), dx);
        }
      }
    }
    first += dout.extent(1) * size;
  }
}

template <class Real>
void kv_cache_write(Arrays<Real>& t) {
  for (std::int64_t token = 0; token < t["k"].extent(0); ++token) {
    const std::int64_t slot = t["slots"].integer(token);
    const std::int64_t position = t["positions"].integer(token);
    for (std::int64_t h = 0; h < t["k"].extent(1); ++h) {
      for (std::int64_t i = 0; i < t["k"].extent(2); ++i) {
        t["k_cache"](slot, h, position, i) = t["k"](token, h, i);
        t["v_cache"](slot, h, position, i) = t["v"](token, h, i);
      }
    }
  }
}

template <class Real>
void attention_decode(Arrays<Real>& t, std::int64_t window, float scale) {
  auto& q = t["q"];
  auto& out = t["out"];
  const std::int64_t group = q.extent(1) / t["k_cache"].extent(1);
  for (std::int64_t row = 0; row < q.extent(0); ++row) {
    const std::int64_t slot = t["slots"].integer(row);
    const std::int64_t last = t["positions"].integer(row);
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, last + 1 - window);
    for (std::int64_t h = 0; h < q.extent(1); ++h) {
      std::vector<Real> weights;
      for (std::int64_t j = first; j <= last; ++j) {
        Real score = 0;
        for (std::int64_t i = 0; i < q.extent(2); ++i) {
          score += q(row, h, i) * t["k_cache"](slot, h / group, j, i);
        }
        weights.push_back(score * static_cast<Real>(scale));
      }
      const Real highest = *std::max_element(weights.begin(), weights.end());
      Real sum = 0;
      for (Real& weight : weights) sum += weight = std::exp(weight - highest);
      for (std::int64_t i = 0; i < q.extent(2); ++i) {
        Real mix = 0;
        for (std::int64_t j = first; j <= last; ++j) {
          mix += weights[static_cast<std::size_t>(j - first)] / sum *
                 t["v_cache"](slot, h / group, j, i);
        }
        out(row, h, i) = mix;
      }
    }
  }
}

template <class Real>
void gate_mix_forward(Arrays<Real>& t) {
  auto& logits = t["gate_logits"];
  const std::int64_t gates = logits.extent(1) / 2;
  const std::int64_t width = t["a"].extent(1) * t["a"].extent(2);
  for (std::int64_t token = 0; token < logits.extent(0); ++token) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t gate = c / (width / gates);
      const std::int64_t at = token * width + c;
      t["out"](at) = sigmoid(logits(token, gate)) * t["a"](at) +
                     sigmoid(logits(token, gates + gate)) * t["b"](at);
    }
  }
}

template <class Real>
void gate_mix_backward(Arrays<Real>& t) {
  auto& logits = t["gate_logits"];
  const std::int64_t gates = logits.extent(1) / 2;
  const std::int64_t width = t["a"].extent(1) * t["a"].extent(2);
  for (std::int64_t token = 0; token < logits.extent(0); ++token) {
    for (std::int64_t path = 0; path < 2; ++path) {
      auto& x = t[path == 0 ? "a" : "b"];
      auto& dx = t[path == 0 ? "da" : "db"];
      for (std::int64_t gate = path * gates; gate < (path + 1) * gates; ++gate) {
        t["dgate_logits"](token, gate) = 0;
      }
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t gate = path * gates + c / (width / gates);
        const std::int64_t at = token * width + c;
        const Real opening = sigmoid(logits(token, gate));
        dx(at) = opening * t["dout"](at);
        t["dgate_logits"](token, gate) += opening * (1 - opening) * t["dout"](at) * x(at);
      }
    }
  }
}

template <class Real>
void swiglu_forward(Arrays<Real>& t) {
  auto& out = t["out"];
  const std::int64_t width = out.extent(1);
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const Real gate = t["gate_up"](i, j);
      out(i, j) = gate * sigmoid(gate) * t["gate_up"](i, width + j);
    }
  }
}

template <class Real>
void swiglu_backward(Arrays<Real>& t) {
  auto& dout = t["dout"];
  const std::int64_t width = dout.extent(1);
  for (std::int64_t i = 0; i < dout.extent(0); ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const Real gate = t["gate_up"](i, j);
      const Real s = sigmoid(gate);
      t["dgate_up"](i, j) = dout(i, j) * t["gate_up"](i, width + j) * (s + gate * s * (1 - s));
      t["dgate_up"](i, width + j) = dout(i, j) * gate * s;
    }
  }
}

template <class Real>
void gelu_forward(Arrays<Real>& t) {
  const Real c = std::sqrt(2 / std::numbers::pi_v<Real>);
  for (std::int64_t i = 0; i < t["x"].shape.elements(); ++i) {
    const Real x = t["x"](i);
    t["out"](i) = x / 2 * (1 + std::tanh(c * (x + static_cast<Real>(0.044715) * x * x * x)));
  }
}

template <class Real>
void gelu_backward(Arrays<Real>& t) {
  const Real c = std::sqrt(2 / std::numbers::pi_v<Real>);
  const Real cubic = static_cast<Real>(0.044715);
  for (std::int64_t i = 0; i < t["x"].shape.elements(); ++i) {
    const Real x = t["x"](i);
    const Real th = std::tanh(c * (x + cubic * x * x * x));
    const Real slope = (1 + th) / 2 + x / 2 * (1 - th * th) * c * (1 + 3 * cubic * x * x);
    t["dx"](i) = t["dout"](i) * slope;
  }
}

template <class Real>
void cross_entropy(Arrays<Real>& t, const CrossEntropyOptions& options) {
  auto& logits = t["logits"];
  const Real gradient_scale = options.gradient_scale;
  const Real z_loss = options.z_loss;
  for (std::int64_t i = 0; i < logits.extent(0); ++i) {
    const std::int64_t target = t["targets"].integer(i);
    Real top = logits(i, 0);
    for (std::int64_t j = 1; j < options.vocab_size; ++j) top = std::max(top, logits(i, j));
    Real sum = 0;
    for (std::int64_t j = 0; j < options.vocab_size; ++j) sum += std::exp(logits(i, j) - top);
    const Real lse = top + std::log(sum);
    t["losses"](i) = target < 0 ? 0 : lse - logits(i, target);
    if (t.count("most_likely") != 0) {
      std::int64_t best = 0;
      for (std::int64_t j = 1; j < options.vocab_size; ++j) {
        if (logits(i, j) > logits(i, best)) best = j;
      }
      t["most_likely"](i) = static_cast<Real>(target < 0 ? -1 : best);
    }
    if (gradient_scale == 0) continue;
    for (std::int64_t j = 0; j < logits.extent(1); ++j) {
      const Real p = j < options.vocab_size ? std::exp(logits(i, j) - lse) : Real{0};
      const Real gradient = p * (1 + 2 * z_loss * lse) - (j == target ? 1 : 0);
      logits(i, j) = target < 0 ? 0 : gradient_scale * gradient;
    }
  }
}

template <class Real>
void adamw_step(Arrays<Real>& t, const AdamWOptions& options) {
  const Real b1 = options.beta1;
  const Real b2 = options.beta2;
  const auto step = static_cast<Real>(options.step);
  const Real c1 = 1 - std::pow(b1, step);
  const Real c2 = 1 - std::pow(b2, step);
  for (std::int64_t i = 0; i < t["param"].shape.elements(); ++i) {
    const Real g = t["grad"](i) * t["clip"](0);
    Real& m = t["m"](i);
    Real& v = t["v"](i);
    Real& w = t["param"](i);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w -= static_cast<Real>(options.learning_rate) *
         (m / c1 / (std::sqrt(v / c2) + static_cast<Real>(options.eps)) +
          static_cast<Real>(options.weight_decay) * w);
  }
}

template <class Real>
void sum(Arrays<Real>& t, bool accumulate) {
  Real sum = 0;
  for (const Real x : t["x"].values) sum += x;
  t["out"](0) = accumulate ? t["out"](0) + sum : sum;
}

template <class Real>
void sum_of_squares(Arrays<Real>& t) {
  Real sum = 0;
  for (const Real x : t["x"].values) sum += x * x;
  t["out"](0) = sum;
}

template <class Real>
void add(Arrays<Real>& t) {
  for (std::int64_t i = 0; i < t["out"].shape.elements(); ++i) t["out"](i) = t["a"](i) + t["b"](i);
}

template <class Real>
void scale(Arrays<Real>& t, float factor) {
  for (Real& x : t["x"].values) x *= static_cast<Real>(factor);
}

template <class Real>
void fill(Arrays<Real>& t, float value) {
  for (Real& x : t["x"].values) x = static_cast<Real>(value);
}

template <class Real>
void copy(Arrays<Real>& t) {
  t["out"].values = t["x"].values;
}

template <class Real>
void route_experts(Arrays<Real>& t, bool normalize) {
  auto& logits = t["logits"];
  const std::int64_t experts = logits.extent(1);
  const std::int64_t chosen = t["weights"].extent(1);
  std::vector<std::vector<std::int64_t>> pairs(static_cast<std::size_t>(experts));
  for (std::int64_t token = 0; token < logits.extent(0); ++token) {
    Real total = 0;
    for (std::int64_t e = 0; e < experts; ++e) total += std::exp(logits(token, e));
    std::vector<bool> taken(static_cast<std::size_t>(experts));
    Real sum = 0;
    for (std::int64_t k = 0; k < chosen; ++k) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < experts; ++e) {
        if (taken[static_cast<std::size_t>(e)]) continue;
        if (best < 0 || logits(token, e) > logits(token, best)) best = e;
      }
      taken[static_cast<std::size_t>(best)] = true;
      pairs[static_cast<std::size_t>(best)].push_back(token * chosen + k);
      t["weights"](token, k) = std::exp(logits(token, best)) / total;
      sum += t["weights"](token, k);
    }
    for (std::int64_t k = 0; normalize && k < chosen; ++k) t["weights"](token, k) /= sum;
  }
  std::int64_t row = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    t["offsets"](e) = static_cast<Real>(row);
    for (const std::int64_t pair : pairs[static_cast<std::size_t>(e)]) {
      t["rows"](row) = static_cast<Real>(pair / chosen);
      t["slots"](pair) = static_cast<Real>(row++);
    }
  }
  t["offsets"](experts) = static_cast<Real>(row);
}

template <class Real>
void grouped_matmul(Arrays<Real>& t) {
  auto& out = t["out"];
  const std::int64_t width = out.extent(1);
  for (std::int64_t e = 0; e + 1 < t["offsets"].extent(0); ++e) {
    for (std::int64_t i = t["offsets"].integer(e); i < t["offsets"].integer(e + 1); ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        out(i, j) = 0;
        for (std::int64_t k = 0; k < t["a"].extent(1); ++k) {
          out(i, j) += t["a"](i, k) * t["b"](e * width + j, k);
        }
      }
    }
  }
}

template <class Real>
void combine_experts(Arrays<Real>& t) {
  auto& out = t["out"];
  for (std::int64_t token = 0; token < out.extent(0); ++token) {
    for (std::int64_t i = 0; i < out.extent(1); ++i) {
      out(token, i) = 0;
      for (std::int64_t k = 0; k < t["weights"].extent(1); ++k) {
        const std::int64_t pair = token * t["weights"].extent(1) + k;
        out(token, i) += t["weights"](pair) * t["x"](t["slots"].integer(pair), i);
      }
    }
  }
}

#define FLYWHEEL_INSTANTIATE(Real)                                        \
  template void route_experts(Arrays<Real>&, bool);                       \
  template void grouped_matmul(Arrays<Real>&);                            \
  template void combine_experts(Arrays<Real>&);                           \
  template void matmul(Arrays<Real>&, const MatmulOptions&);              \
  template void bias_backward(Arrays<Real>&);                             \
  template void embedding_forward(Arrays<Real>&);                         \
  template void embedding_backward(Arrays<Real>&);                        \
  template void rms_norm_forward(Arrays<Real>&, float);                   \
  template void add_rms_norm_forward(Arrays<Real>&, float);               \
  template void rms_norm_backward(Arrays<Real>&, bool);                   \
  template void layer_norm_forward(Arrays<Real>&, float);                 \
  template void layer_norm_backward(Arrays<Real>&, bool);                 \
  template void split_heads_forward(Arrays<Real>&, float);                \
  template void split_heads_backward(Arrays<Real>&);                      \
  template void kv_cache_write(Arrays<Real>&);                            \
  template void attention_decode(Arrays<Real>&, std::int64_t, float);     \
  template void gate_mix_forward(Arrays<Real>&);                          \
  template void gate_mix_backward(Arrays<Real>&);                         \
  template void swiglu_forward(Arrays<Real>&);                            \
  template void swiglu_backward(Arrays<Real>&);                           \
  template void gelu_forward(Arrays<Real>&);                              \
  template void gelu_backward(Arrays<Real>&);                             \
  template void cross_entropy(Arrays<Real>&, const CrossEntropyOptions&); \
  template void adamw_step(Arrays<Real>&, const AdamWOptions&);           \
  template void sum(Arrays<Real>&, bool);                                 \
  template void sum_of_squares(Arrays<Real>&);                            \
  template void add(Arrays<Real>&);                                       \
  template void scale(Arrays<Real>&, float);                              \
  template void fill(Arrays<Real>&, float);                               \
  template void copy(Arrays<Real>&);
FLYWHEEL_INSTANTIATE(float)
FLYWHEEL_INSTANTIATE(double)
#undef FLYWHEEL_INSTANTIATE

}  // namespace flywheel::test::reference

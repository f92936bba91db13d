#include "support/attention_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace flywheel::test {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// The visible sets of one sequence, as lists.
class VisibleKeys {
 public:
  VisibleKeys(const AttentionCase& c, std::int64_t s)
      : pattern_(c.pattern), n_(c.cu_seqlens[at(s + 1)] - c.cu_seqlens[at(s)]) {
    if (pattern_.kind != AttentionKind::Sa) return;
    const auto number = c.first_sequence + static_cast<std::uint32_t>(s);
    sigma_ = reference_permutation(c.key, pattern_.per_sequence ? number : 0, n_);
  }
  std::int64_t length() const { return n_; }
  const std::vector<std::int64_t>& of(std::int64_t i) {
    keys_.clear();
    for (std::int64_t j = 0; j < n_; ++j) {
      if (visible(pattern_, sigma_, n_, i, j)) keys_.push_back(j);
    }
    return keys_;
  }

 private:
  AttentionPattern pattern_;
  std::int64_t n_;
  std::vector<std::int32_t> sigma_;
  std::vector<std::int64_t> keys_;
};

template <class Real>
Real dot(const Real* a, const Real* b, std::int64_t size) {
  Real sum = 0;
  for (std::int64_t c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

template <class Real>
void axpy(Real* out, Real factor, const Real* x, std::int64_t size) {
  for (std::int64_t c = 0; c < size; ++c) out[c] += factor * x[c];
}

// The keys of moba's choice in a sequence that starts at token `begin`.
template <class Real>
std::vector<std::int64_t> keys_of_blocks(const AttentionCase& c, const AttentionTensors<Real>& x,
                                         std::int64_t begin, std::int64_t i, std::int64_t h) {
  const std::int64_t block = c.pattern.block;
  std::vector<std::int64_t> keys;
  for (const std::int64_t b : choose_blocks(c, x, begin, i, h).blocks) {
    for (std::int64_t j = b * block; j < std::min((b + 1) * block, i + 1); ++j) keys.push_back(j);
  }
  return keys;
}

// Calls body(token of query, tokens of its keys, query head, key head) for all rows.
template <class Real, class Body>
void for_each_row(const AttentionCase& c, const AttentionTensors<Real>& x, const Body& body) {
  const bool moba = c.pattern.kind == AttentionKind::Moba;
  for (std::int64_t s = 0; s + 1 < std::ssize(c.cu_seqlens); ++s) {
    VisibleKeys visible_keys(c, s);
    const std::int64_t begin = c.cu_seqlens[at(s)];
    for (std::int64_t i = 0; i < visible_keys.length(); ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        std::vector<std::int64_t> keys =
            moba ? keys_of_blocks(c, x, begin, i, h) : visible_keys.of(i);
        for (std::int64_t& key : keys) key += begin;
        body(begin + i, keys, h, h / (c.heads / c.kv_heads));
      }
    }
  }
}

// Calls body(element of lse, first element of the row of out) where a choice is close.
template <class Body>
void for_close_choices(const AttentionCase& c, const AttentionTensors<float>& x, const Body& body) {
  if (c.pattern.kind != AttentionKind::Moba) return;
  const double close = 4e-6 * std::sqrt(static_cast<double>(c.head_size));
  std::int64_t count = 0;
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s) {
    const std::int64_t begin = c.cu_seqlens[s];
    for (std::int64_t i = 0; begin + i < c.cu_seqlens[s + 1]; ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const double margin = choose_blocks(c, x, begin, i, h).margin;
        if (margin == 0 || margin >= close) continue;
        ++count;
        body(at(h * c.tokens() + begin + i), at(((begin + i) * c.heads + h) * c.head_size));
      }
    }
  }
  require(count <= 2 + c.tokens() * c.heads / 100, ErrorKind::Internal,
          "{} choices are close; take another seed", count);
}

std::vector<float> normal_numbers(std::uint64_t seed, std::uint32_t which, std::int64_t count) {
  const RandomSequence random(seed, RandomStream::kInitialization, which);
  std::vector<float> x(at(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

void add_rope(const AttentionCase& c, AttentionTensors<float>& x, std::uint64_t seed) {
  for (const float angle : normal_numbers(seed, 7, kRopePositions * (c.head_size / 2))) {
    x.cos.push_back(std::cos(angle));
    x.sin.push_back(std::sin(angle));
  }
  for (std::int32_t s = 0; s + 1 < std::ssize(c.cu_seqlens); ++s) {
    const std::int32_t n = c.cu_seqlens[at(s + 1)] - c.cu_seqlens[at(s)];
    for (std::int32_t i = 0; i < n; ++i) {
      x.positions.push_back(static_cast<std::int32_t>((3 + 5 * s + i) % kRopePositions));
    }
  }
}

AttentionPattern random_pattern(const RandomSequence& random, std::int64_t longest) {
  AttentionPattern pattern;
  const std::uint64_t kind = random.below(0, 5);
  pattern.kind = kind == 0   ? AttentionKind::Full
                 : kind == 1 ? AttentionKind::Swa
                             : AttentionKind::Sa;
  const std::uint64_t widest = random.below(1, 2) == 0 ? 2 * at(longest) : 1 + at(longest) / 4;
  pattern.window = 1 + static_cast<std::int64_t>(random.below(2, widest));
  pattern.band = random.below(3, 2) == 0 ? Band::Centered : Band::Trailing;
  pattern.budget = random.below(4, 2) == 0 ? Budget::Slots : Budget::Matched;
  pattern.circular = random.below(5, 3) != 0;
  pattern.per_sequence = random.below(6, 2) == 0;
  return pattern;
}

}  // namespace

bool visible(const AttentionPattern& pattern, std::span<const std::int32_t> sigma, std::int64_t n,
             std::int64_t i, std::int64_t j) {
  if (j > i) return false;
  if (pattern.kind == AttentionKind::Full) return true;
  if (pattern.kind == AttentionKind::Swa) return i - j < pattern.window;
  const std::int64_t s = pattern.budget == Budget::Slots ? pattern.window : 2 * pattern.window - 1;
  const std::int64_t a = pattern.band == Band::Centered ? (s - 1) / 2 : 0;
  const std::int64_t d = sigma[at(i)] - sigma[at(j)] + a;
  if (!pattern.circular) return 0 <= d && d < s;
  return (d % n + n) % n < s;
}

template <class Real>
BlockChoice choose_blocks(const AttentionCase& c, const AttentionTensors<Real>& x,
                          std::int64_t begin, std::int64_t i, std::int64_t h) {
  const std::int64_t size = c.head_size;
  const std::int64_t kv = h / (c.heads / c.kv_heads);
  const Real* q = &x.q[at(((begin + i) * c.heads + h) * size)];
  std::vector<double> gates;
  for (std::int64_t b = 0; b < i / c.pattern.block; ++b) {
    double gate = 0;
    for (std::int64_t d = 0; d < size; ++d) {
      double sum = 0;
      for (std::int64_t j = b * c.pattern.block; j < (b + 1) * c.pattern.block; ++j) {
        sum += static_cast<double>(x.k[at(((begin + j) * c.kv_heads + kv) * size + d)]);
      }
      gate += static_cast<double>(q[d]) * (sum / static_cast<double>(c.pattern.block));
    }
    gates.push_back(gate);
  }
  std::vector<std::int64_t> order(gates.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return gates[at(a)] > gates[at(b)]; });
  BlockChoice choice;
  const std::size_t places = at(std::min(c.pattern.top_k - 1, std::ssize(order)));
  if (0 < places && places < order.size()) {
    choice.margin = gates[at(order[places - 1])] - gates[at(order[places])];
  }
  choice.blocks.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(places));
  choice.blocks.push_back(i / c.pattern.block);
  return choice;
}

void silence_close_choices(const AttentionCase& c, AttentionTensors<float>& x) {
  for_close_choices(c, x, [&](std::size_t /*lse*/, std::size_t row) {
    std::fill_n(&x.dout[row], c.head_size, 0.0F);
  });
}

void forgive_close_choices(const AttentionCase& c, const AttentionTensors<double>& exact,
                           AttentionTensors<float>& x) {
  for_close_choices(c, x, [&](std::size_t lse, std::size_t row) {
    x.lse[lse] = static_cast<float>(exact.lse[lse]);
    for (std::size_t d = row; d < row + at(c.head_size); ++d) {
      x.out[d] = static_cast<float>(exact.out[d]);
    }
  });
}

std::vector<std::int32_t> reference_permutation(const PermutationKey& key, std::uint32_t sequence,
                                                std::int64_t n) {
  const std::uint32_t last = static_cast<std::uint32_t>(key.stream) | key.layer << 8;
  std::vector<std::uint64_t> words(at(n));
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto block = philox4x32(
        {static_cast<std::uint32_t>(i / 2), sequence, key.draw, last},
        {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
    const std::size_t half = i % 2 * 2;
    words[i] = std::uint64_t{block[half + 1]} << 32 | block[half];
  }
  std::vector<std::int32_t> order(at(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return words[at(a)] < words[at(b)]; });
  std::vector<std::int32_t> sigma(at(n));
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    sigma[at(order[rank])] = static_cast<std::int32_t>(rank);
  }
  return sigma;
}

float AttentionCase::scale() const {
  return 1 / std::sqrt(static_cast<float>(head_size));
}

std::string AttentionCase::describe() const {
  return fmt::format(
      "{} window={} block={} top_k={} band={} budget={} circular={} per_sequence={} cu_seqlens={} "
      "heads={}/{} D={} rope={} accumulate={}",
      name_of_enum(pattern.kind), pattern.window, pattern.block, pattern.top_k,
      name_of_enum(pattern.band), name_of_enum(pattern.budget), pattern.circular,
      pattern.per_sequence, cu_seqlens, heads, kv_heads, head_size, rope, accumulate);
}

AttentionTensors<float> random_attention_inputs(const AttentionCase& c, std::uint64_t seed) {
  const std::int64_t q_size = c.tokens() * c.heads * c.head_size;
  const std::int64_t kv_size = c.tokens() * c.kv_heads * c.head_size;
  AttentionTensors<float> x;
  x.q = normal_numbers(seed, 0, q_size);
  x.k = normal_numbers(seed, 1, kv_size);
  x.v = normal_numbers(seed, 2, kv_size);
  x.dout = normal_numbers(seed, 3, q_size);
  x.out.resize(at(q_size));
  x.dq.resize(at(q_size));
  x.lse.resize(at(c.heads * c.tokens()));
  x.dk.resize(at(kv_size));
  x.dv.resize(at(kv_size));
  if (c.accumulate) {
    x.dq = normal_numbers(seed, 4, q_size);
    x.dk = normal_numbers(seed, 5, kv_size);
    x.dv = normal_numbers(seed, 6, kv_size);
  }
  if (c.rope) add_rope(c, x, seed);
  silence_close_choices(c, x);
  return x;
}

AttentionTensors<double> to_double(const AttentionTensors<float>& x) {
  const auto widen = [](const std::vector<float>& a) {
    return std::vector<double>(a.begin(), a.end());
  };
  return {widen(x.q),  widen(x.k),  widen(x.v),  widen(x.dout), widen(x.out), widen(x.lse),
          widen(x.dq), widen(x.dk), widen(x.dv), widen(x.cos),  widen(x.sin), x.positions};
}

template <class Real>
void naive_attention_forward(const AttentionCase& c, AttentionTensors<Real>& x) {
  const std::int64_t size = c.head_size;
  const Real scale = 1 / std::sqrt(static_cast<Real>(size));
  std::vector<Real> p;
  for_each_row(
      c, x,
      [&](std::int64_t i, const std::vector<std::int64_t>& keys, std::int64_t h, std::int64_t kv) {
        const Real* q = &x.q[at((i * c.heads + h) * size)];
        Real* out = &x.out[at((i * c.heads + h) * size)];
        p.clear();
        for (const std::int64_t j : keys) {
          p.push_back(scale * dot(q, &x.k[at((j * c.kv_heads + kv) * size)], size));
        }
        const Real max = *std::max_element(p.begin(), p.end());
        Real sum = 0;
        for (Real& value : p) sum += value = std::exp(value - max);
        std::fill_n(out, size, Real{0});
        for (std::size_t e = 0; e < p.size(); ++e) {
          axpy(out, p[e], &x.v[at((keys[e] * c.kv_heads + kv) * size)], size);
        }
        for (std::int64_t d = 0; d < size; ++d) out[d] /= sum;
        x.lse[at(h * c.tokens() + i)] = max + std::log(sum);
      });
}

template <class Real>
void naive_attention_backward(const AttentionCase& c, AttentionTensors<Real>& x) {
  const std::int64_t size = c.head_size;
  const Real scale = 1 / std::sqrt(static_cast<Real>(size));
  for (std::vector<Real>* gradient : {&x.dq, &x.dk, &x.dv}) {
    if (!c.accumulate) std::fill(gradient->begin(), gradient->end(), Real{0});
  }
  for_each_row(
      c, x,
      [&](std::int64_t i, const std::vector<std::int64_t>& keys, std::int64_t h, std::int64_t kv) {
        const std::size_t row = at((i * c.heads + h) * size);
        const Real delta = dot(&x.dout[row], &x.out[row], size);
        for (const std::int64_t j : keys) {
          const std::size_t key_row = at((j * c.kv_heads + kv) * size);
          const Real score = scale * dot(&x.q[row], &x.k[key_row], size);
          const Real p = std::exp(score - x.lse[at(h * c.tokens() + i)]);
          const Real ds = p * (dot(&x.dout[row], &x.v[key_row], size) - delta) * scale;
          axpy(&x.dv[key_row], p, &x.dout[row], size);
          axpy(&x.dk[key_row], ds, &x.q[row], size);
          axpy(&x.dq[row], ds, &x.k[key_row], size);
        }
      });
  if (c.rope) naive_turn_back(c, x);
}

template <class Real>
void naive_turn_back(const AttentionCase& c, AttentionTensors<Real>& x) {
  const std::int64_t half = c.head_size / 2;
  for (std::vector<Real>* gradient : {&x.dq, &x.dk}) {
    const std::int64_t heads = gradient == &x.dq ? c.heads : c.kv_heads;
    for (std::int64_t row = 0; row < c.tokens() * heads; ++row) {
      Real* low = &(*gradient)[at(row * c.head_size)];
      Real* high = low + half;
      const std::int64_t angles = x.positions[at(row / heads)] * half;
      for (std::int64_t m = 0; m < half; ++m) {
        const Real a = low[m];
        const Real b = high[m];
        low[m] = a * x.cos[at(angles + m)] + b * x.sin[at(angles + m)];
        high[m] = b * x.cos[at(angles + m)] - a * x.sin[at(angles + m)];
      }
    }
  }
}

template BlockChoice choose_blocks(const AttentionCase&, const AttentionTensors<float>&,
                                   std::int64_t, std::int64_t, std::int64_t);
template BlockChoice choose_blocks(const AttentionCase&, const AttentionTensors<double>&,
                                   std::int64_t, std::int64_t, std::int64_t);
template void naive_attention_forward(const AttentionCase&, AttentionTensors<float>&);
template void naive_attention_forward(const AttentionCase&, AttentionTensors<double>&);
template void naive_attention_backward(const AttentionCase&, AttentionTensors<float>&);
template void naive_attention_backward(const AttentionCase&, AttentionTensors<double>&);
template void naive_turn_back(const AttentionCase&, AttentionTensors<double>&);

AttentionCase random_attention_case(std::uint64_t seed, double work) {
  const RandomSequence random(seed, RandomStream::kInitialization, 99);
  AttentionCase c;
  const bool small_heads = random.below(13, 2) == 0;  // and so longer sequences
  c.head_size = 8 * (1 + static_cast<std::int64_t>(random.below(10, small_heads ? 3 : 32)));
  c.kv_heads = 1 + static_cast<std::int64_t>(random.below(11, small_heads ? 2 : 3));
  c.heads = c.kv_heads * (1 + static_cast<std::int64_t>(random.below(12, small_heads ? 2 : 4)));
  const double budget = work / static_cast<double>(c.head_size * c.heads);
  const auto longest =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::sqrt(budget)), 1, 700);
  c.cu_seqlens = {0};
  double spent = 0;
  for (std::uint64_t s = 0; s < 6 && spent < budget; ++s) {
    // Short ones are as likely as long ones.
    const auto limit = 1 + random.below(20 + 2 * s, at(longest));
    const auto n = static_cast<std::int64_t>(1 + random.below(21 + 2 * s, limit));
    c.cu_seqlens.push_back(static_cast<std::int32_t>(c.tokens() + n));
    spent += static_cast<double>(n * n);
  }
  std::int64_t widest = 1;
  for (std::size_t s = 1; s < c.cu_seqlens.size(); ++s) {
    widest = std::max<std::int64_t>(widest, c.cu_seqlens[s] - c.cu_seqlens[s - 1]);
  }
  c.pattern = random_pattern(random, widest);
  c.key = {seed, RandomStream::kTrainingPermutation, static_cast<std::uint32_t>(seed % 7),
           static_cast<std::uint32_t>(seed % 5)};
  c.first_sequence = static_cast<std::uint32_t>(seed % 3);
  c.rope = random.below(14, 2) == 0;
  c.accumulate = random.below(15, 2) == 0;
  return c;
}

}  // namespace flywheel::test

#include "parity/attention_run.h"

#include <algorithm>

#include "attention/plan.h"
#include "cpu/attention.h"
#include "parity/attention_check.h"
#include "support/catch.h"

namespace flywheel::test {
namespace {

struct StridedTensor {
  static constexpr std::int64_t kGap = 24;  // between the rows of Layout::Padded
  static constexpr float kUntouched = -7;

  std::vector<float> memory;
  TensorView view;

  StridedTensor(const std::vector<float>& values, std::int64_t tokens, std::int64_t heads,
                std::int64_t size, Layout layout) {
    const std::int64_t gap = layout == Layout::Padded ? kGap : 0;
    memory.assign(static_cast<std::size_t>(tokens * (heads * size + gap)), kUntouched);
    if (layout == Layout::HeadMajor) {
      view = TensorView::heads_first(memory.data(), DType::F32, tokens, heads, size);
    } else {
      view = TensorView(memory.data(), DType::F32, Shape{tokens, heads, size});
      view.strides[0] = heads * size + gap;
    }
    each([&](float& element, std::size_t i) { element = values[i]; });
  }
  // Also checks that nothing between the rows was written; not again after that.
  std::vector<float> take_values() {
    std::vector<float> result(static_cast<std::size_t>(view.elements()));
    each([&](float& element, std::size_t i) { result[i] = element; });
    each([](float& element, std::size_t) { element = kUntouched; });
    REQUIRE(std::count(memory.begin(), memory.end(), kUntouched) == std::ssize(memory));
    return result;
  }

 private:
  template <class Body>
  void each(const Body& body) {
    std::size_t i = 0;
    for (std::int64_t t = 0; t < view.shape[0]; ++t) {
      for (std::int64_t h = 0; h < view.shape[1]; ++h) {
        for (std::int64_t c = 0; c < view.shape[2]; ++c) {
          body(view.f32()[t * view.stride(0) + h * view.stride(1) + c], i++);
        }
      }
    }
  }
};

}  // namespace

AttentionTensors<float> run_attention(const AttentionCase& c, const AttentionTensors<float>& in,
                                      const AttentionRunOptions& options) {
  const std::int64_t tokens = c.tokens();
  AttentionPlan plan(c.pattern, cpu::kAttentionTile, tokens, std::ssize(c.cu_seqlens) - 1);
  plan.prepare(c.cu_seqlens, c.key, c.first_sequence);
  const auto query = [&](const std::vector<float>& x, Layout layout) {
    return StridedTensor(x, tokens, c.heads, c.head_size, layout);
  };
  const auto key = [&](const std::vector<float>& x, Layout layout) {
    return StridedTensor(x, tokens, c.kv_heads, c.head_size, layout);
  };
  StridedTensor q = query(in.q, options.q);
  StridedTensor k = key(in.k, options.kv);
  StridedTensor v = key(in.v, options.kv);
  StridedTensor out = query(in.out, options.out);
  StridedTensor dout = query(in.dout, options.out);
  StridedTensor dq = query(in.dq, options.q);
  StridedTensor dk = key(in.dk, options.dkv);
  StridedTensor dv = key(in.dv, options.dkv);
  std::vector<float> lse = in.lse;
  const TensorView lse_view(lse.data(), DType::F32, Shape{c.heads, tokens});
  AttentionTensors<float> tables = in;
  const Shape angles{kRopePositions, c.head_size / 2};

  ThreadPool pool(options.threads);
  cpu::AttentionWorkspace workspace;
  cpu::attention_forward({out.view, lse_view, q.view, k.view, v.view, &plan, c.scale()}, pool,
                         workspace);
  AttentionBackward args{
      .dq = dq.view,
      .dk = dk.view,
      .dv = dv.view,
      .dout = dout.view,
      .out = out.view,
      .lse = lse_view,
      .q = q.view,
      .k = k.view,
      .v = v.view,
      .cos = TensorView(tables.cos.data(), DType::F32, angles),
      .sin = TensorView(tables.sin.data(), DType::F32, angles),
      .positions = TensorView(tables.positions.data(), DType::I32, Shape{tokens}),
      .plan = &plan,
      .scale = c.scale(),
      .accumulate = c.accumulate};
  if (!c.rope) args.cos = args.sin = args.positions = {};
  cpu::attention_backward(args, pool, workspace);
  AttentionTensors<float> result = in;
  result.out = out.take_values();
  result.lse = lse;
  result.dq = dq.take_values();
  result.dk = dk.take_values();
  result.dv = dv.take_values();
  return result;
}

void check_against_reference(const AttentionCase& c, const AttentionTensors<float>& in,
                             const AttentionRunOptions& options) {
  check_attention(c, in, run_attention(c, in, options));
}

AttentionRunOptions run_options_of(std::uint64_t seed) {
  AttentionRunOptions options;
  options.threads = 1 + static_cast<int>(seed % 3);
  options.q = static_cast<Layout>(seed % 3);
  options.kv = static_cast<Layout>(seed / 3 % 3);
  options.dkv = static_cast<Layout>(seed / 27 % 3);
  options.out = static_cast<Layout>(seed / 9 % 3);
  return options;
}

void check_random_attention_case(std::uint64_t seed, double work) {
  const AttentionCase c = random_attention_case(seed, work);
  INFO("repeat with FLYWHEEL_CASE=" << seed << ": " << c.describe());
  check_against_reference(c, random_attention_inputs(c, seed), run_options_of(seed));
}

}  // namespace flywheel::test

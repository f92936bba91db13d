#include "simt/attention_run.h"

#include <algorithm>
#include <array>

#include "attention/plan.h"
#include "backend/ops.h"
#include "support/catch.h"

namespace flywheel::test {
namespace {

constexpr float kUntouched = -7;

// [T, heads, D] on the device.
class DeviceTensor {
 public:
  DeviceTensor(Backend& backend, const std::vector<float>& values, const AttentionCase& c,
               std::int64_t heads, bool heads_first, std::int64_t gap)
      : backend_(backend) {
    const std::int64_t token = heads * c.head_size + gap;
    const std::int64_t count = c.tokens() * token;
    memory_ = backend.allocate(count * 4, "a tensor");
    all_ = TensorView(memory_->data(), DType::F32, Shape{count}, DeviceKind::Cuda);
    if (heads_first) {
      view = TensorView::heads_first(memory_->data(), DType::F32, c.tokens(), heads, c.head_size,
                                     DeviceKind::Cuda);
    } else {
      view = TensorView(memory_->data(), DType::F32, Shape{c.tokens(), heads, c.head_size},
                        DeviceKind::Cuda);
      view.strides[0] = token;
    }
    std::vector<float> host(static_cast<std::size_t>(count), kUntouched);
    each([&](std::size_t element, std::size_t i) { host[element] = values[i]; });
    backend.upload(all_, host.data());
  }

  // Also checks that nothing else was written.
  std::vector<float> read() {
    std::vector<float> host(static_cast<std::size_t>(all_.elements()));
    backend_.download(host.data(), all_);
    std::vector<float> values(static_cast<std::size_t>(view.elements()));
    each([&](std::size_t element, std::size_t i) {
      values[i] = host[element];
      host[element] = kUntouched;
    });
    REQUIRE(std::count(host.begin(), host.end(), kUntouched) == std::ssize(host));
    return values;
  }

  TensorView view;

 private:
  template <class Body>
  void each(const Body& body) const {
    std::size_t i = 0;
    for (std::int64_t t = 0; t < view.shape[0]; ++t) {
      for (std::int64_t h = 0; h < view.shape[1]; ++h) {
        for (std::int64_t c = 0; c < view.shape[2]; ++c) {
          body(static_cast<std::size_t>(t * view.stride(0) + h * view.stride(1) + c), i++);
        }
      }
    }
  }

  Backend& backend_;
  std::unique_ptr<DeviceMemory> memory_;
  TensorView all_;
};

// A copy on the device of RoPE's tables, where a case has them.
class DeviceRope {
 public:
  DeviceRope(Backend& backend, const AttentionCase& c, const AttentionTensors<float>& in) {
    if (!c.rope) return;
    const Shape angles{kRopePositions, c.head_size / 2};
    cos = upload(backend, 0, in.cos.data(), DType::F32, angles);
    sin = upload(backend, 1, in.sin.data(), DType::F32, angles);
    positions = upload(backend, 2, in.positions.data(), DType::I32, Shape{c.tokens()});
  }

  TensorView cos, sin, positions;

 private:
  TensorView upload(Backend& backend, std::size_t which, const void* host, DType type,
                    const Shape& shape) {
    memory_.at(which) = backend.allocate(shape.elements() * size_of(type), "RoPE");
    const TensorView view(memory_.at(which)->data(), type, shape, DeviceKind::Cuda);
    backend.upload(view, host);
    return view;
  }

  std::array<std::unique_ptr<DeviceMemory>, 3> memory_;
};

}  // namespace

AttentionLayout layout_of(std::uint64_t seed) {
  return {.heads_first = seed % 2 == 0, .gap = static_cast<std::int64_t>(seed % 3) * 5};
}

AttentionTensors<float> run_attention(Backend& backend, const AttentionCase& c,
                                      const AttentionTensors<float>& in,
                                      const AttentionLayout& layout) {
  AttentionPlan plan(c.pattern, backend.attention_tile(), c.tokens(), std::ssize(c.cu_seqlens) - 1);
  plan.prepare(c.cu_seqlens, c.key, c.first_sequence);
  backend.upload_plan(plan);
  const std::int64_t gap = layout.heads_first ? 0 : layout.gap;
  const auto query = [&](const std::vector<float>& x) {
    return DeviceTensor(backend, x, c, c.heads, layout.heads_first, gap);
  };
  const auto key = [&](const std::vector<float>& x) {
    return DeviceTensor(backend, x, c, c.kv_heads, layout.heads_first, gap);
  };
  DeviceTensor q = query(in.q);
  DeviceTensor k = key(in.k);
  DeviceTensor v = key(in.v);
  DeviceTensor dq = query(in.dq);
  DeviceTensor dk = key(in.dk);
  DeviceTensor dv = key(in.dv);
  DeviceTensor out(backend, in.out, c, c.heads, false, layout.gap);
  DeviceTensor dout(backend, in.dout, c, c.heads, false, layout.gap);
  const DeviceRope rope(backend, c, in);
  const auto lse = backend.allocate(c.heads * c.tokens() * 4, "lse");
  const TensorView lse_view(lse->data(), DType::F32, Shape{c.heads, c.tokens()}, DeviceKind::Cuda);

  ops::attention_forward(backend, {out.view, lse_view, q.view, k.view, v.view, &plan, c.scale()});
  ops::attention_backward(backend, {.dq = dq.view,
                                    .dk = dk.view,
                                    .dv = dv.view,
                                    .dout = dout.view,
                                    .out = out.view,
                                    .lse = lse_view,
                                    .q = q.view,
                                    .k = k.view,
                                    .v = v.view,
                                    .cos = rope.cos,
                                    .sin = rope.sin,
                                    .positions = rope.positions,
                                    .plan = &plan,
                                    .scale = c.scale(),
                                    .accumulate = c.accumulate});
  backend.synchronize();
  AttentionTensors<float> result = in;
  result.out = out.read();
  backend.download(result.lse.data(), lse_view);
  result.dq = dq.read();
  result.dk = dk.read();
  result.dv = dv.read();
  return result;
}

}  // namespace flywheel::test

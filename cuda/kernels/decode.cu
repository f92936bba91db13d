// The cache of keys and values, and attention of one new token a sequence over it. Keys fall into
// blocks, each with a softmax of its own; a second kernel weighs the blocks' results
// ("Flash-Decoding", Dao et al. 2023). Blocks depend on the sequence alone, and so do the bits.
#include <algorithm>

#include "cuda/kernels/attention_args.h"
#include "cuda/kernels/dispatch.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 256;

// [T, Hkv, D] with any strides, and the cache that it goes to.
struct CacheRows {
  const void* from;
  void* to;
  std::int64_t token_stride, head_stride;
};

struct WriteArgs {
  CacheRows k, v;
  const std::int32_t* slots;
  const std::int32_t* positions;
  std::int64_t tokens, heads, size, cached_slots, length;
};

template <class T>
__device__ __forceinline__ void write_element(const CacheRows& rows, std::int64_t from,
                                              std::int64_t to) {
  static_cast<T*>(rows.to)[to] = static_cast<const T*>(rows.from)[from];
}

template <class T>
__global__ void __launch_bounds__(kThreads) kv_cache_write_kernel(WriteArgs args) {
  const std::int64_t index = index_of_thread();
  if (index >= args.tokens * args.heads * args.size) return;
  const std::int64_t c = index % args.size;
  const std::int64_t head = index / args.size % args.heads;
  const std::int64_t token = index / args.size / args.heads;
  const std::int64_t slot = args.slots[token];
  const std::int64_t position = args.positions[token];
  if (slot < 0 || slot >= args.cached_slots || position < 0 || position >= args.length) __trap();
  const std::int64_t to = ((slot * args.heads + head) * args.length + position) * args.size + c;
  const auto from = [&](const CacheRows& rows) {
    return token * rows.token_stride + head * rows.head_stride + c;
  };
  write_element<T>(args.k, from(args.k), to);
  write_element<T>(args.v, from(args.v), to);
}

constexpr int kKeys = 256;  // of a block
constexpr int kChunk = kWarp;
constexpr int kHeads = 4;  // that share a key head, at a time: a warp each

struct DecodeArgs {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  std::int64_t q_token, q_head, out_token, out_head;  // strides
  const std::int32_t* slots;
  const std::int32_t* positions;
  float* partials;  // [rows, H, blocks, 2 + D]: maximum, sum of weights, weighted values
  std::int64_t first_row, heads, kv_heads, size, cached_slots, length, window, blocks;
  float scale;
};

// The keys that a row sees.
struct KeyRange {
  std::int64_t begin, end;
  __device__ __forceinline__ std::int64_t blocks() const {
    return (end - begin + kKeys - 1) / kKeys;
  }
};

__device__ __forceinline__ KeyRange keys_of(const DecodeArgs& args, std::int64_t row) {
  const std::int64_t end = std::int64_t{args.positions[row]} + 1;
  if (end < 1 || end > args.length) __trap();
  const std::int64_t begin = end - args.window;
  return {args.window == 0 || begin < 0 ? 0 : begin, end};
}

__device__ __forceinline__ float* partial_of(const DecodeArgs& args, std::int64_t row,
                                             std::int64_t head, std::int64_t block) {
  return args.partials +
         (((row - args.first_row) * args.heads + head) * args.blocks + block) * (2 + args.size);
}

template <int kSize>
struct DecodeShared {
  float q[kHeads][kSize];
  float k[kChunk][kSize + 1];
  float v[kChunk][kSize];
};

template <class T, int kSize>
__device__ __forceinline__ void load_keys(DecodeShared<kSize>& shared, const DecodeArgs& args,
                                          std::int64_t first, std::int64_t count) {
  const T* k = static_cast<const T*>(args.k) + first * args.size;
  const T* v = static_cast<const T*>(args.v) + first * args.size;
  for (int row = warp_id(); row < kChunk; row += kHeads) {
    for (int c = lane_id(); c < kSize; c += kWarp) {
      const bool real = row < count && c < args.size;
      shared.k[row][c] = real ? to_float(k[row * args.size + c]) : 0.0F;
      shared.v[row][c] = real ? to_float(v[row * args.size + c]) : 0.0F;
    }
  }
}

// Grid: (blocks of keys, key heads, rows). A lane is a key in the scores and channels in the
// values.
template <class T, int kSize>
__global__ void __launch_bounds__(kHeads* kWarp) decode_kernel(DecodeArgs args) {
  auto& shared = dynamic_shared<DecodeShared<kSize>>();
  constexpr int kEach = kSize / kWarp;
  const std::int64_t row = args.first_row + blockIdx.z;
  const std::int64_t kv_head = blockIdx.y;
  const KeyRange keys = keys_of(args, row);
  const std::int64_t slot = args.slots[row];
  if (slot < 0 || slot >= args.cached_slots) __trap();
  const std::int64_t begin = keys.begin + std::int64_t{blockIdx.x} * kKeys;
  if (begin >= keys.end) return;
  const std::int64_t end = min(keys.end, begin + kKeys);
  const std::int64_t first = (slot * args.kv_heads + kv_head) * args.length;
  const std::int64_t group = args.heads / args.kv_heads;
  for (std::int64_t together = 0; together < group; together += kHeads) {
    const bool present = together + warp_id() < group;
    const std::int64_t head = kv_head * group + (present ? together + warp_id() : 0);
    const T* q = static_cast<const T*>(args.q) + row * args.q_token + head * args.q_head;
    for (int c = lane_id(); c < kSize; c += kWarp) {
      shared.q[warp_id()][c] = c < args.size ? to_float(q[c]) * args.scale : 0.0F;
    }
    float top = -INFINITY;
    float sum = 0;
    float values[kEach] = {};
    for (std::int64_t at = begin; at < end; at += kChunk) {
      load_keys<T>(shared, args, first + at, end - at);
      __syncthreads();
      float score = 0;
      for (int c = 0; c < args.size; ++c) {
        score += shared.q[warp_id()][c] * shared.k[lane_id()][c];
      }
      if (at + lane_id() >= end) score = -INFINITY;
      const float new_top = fmaxf(top, warp_max(score));
      const float weight = expf(score - new_top);
      const float correction = expf(top - new_top);
      top = new_top;
      sum = sum * correction + weight;
#pragma unroll
      for (int j = 0; j < kEach; ++j) values[j] *= correction;
      for (int key = 0; key < kChunk; ++key) {
        const float w = __shfl_sync(kAllLanes, weight, key);
#pragma unroll
        for (int j = 0; j < kEach; ++j) values[j] += w * shared.v[key][lane_id() + j * kWarp];
      }
      __syncthreads();
    }
    sum = warp_sum(sum);
    if (!present) continue;
    float* partial = partial_of(args, row, head, blockIdx.x);
    if (lane_id() == 0) {
      partial[0] = top;
      partial[1] = sum;
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int c = lane_id() + j * kWarp;
      if (c < args.size) partial[2 + c] = values[j];
    }
  }
}

// A warp a head of a row.
template <class T>
__global__ void __launch_bounds__(kThreads) combine_kernel(DecodeArgs args, std::int64_t rows) {
  const std::int64_t index = row_of_warp();
  if (index >= rows * args.heads) return;
  const std::int64_t row = args.first_row + index / args.heads;
  const std::int64_t head = index % args.heads;
  const std::int64_t blocks = keys_of(args, row).blocks();
  float top = -INFINITY;
  for (std::int64_t b = 0; b < blocks; ++b) top = fmaxf(top, *partial_of(args, row, head, b));
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float* partial = partial_of(args, row, head, b);
    sum += partial[1] * expf(partial[0] - top);
  }
  T* out = static_cast<T*>(args.out) + row * args.out_token + head * args.out_head;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    float value = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* partial = partial_of(args, row, head, b);
      value += partial[2 + c] * expf(partial[0] - top);
    }
    out[c] = from_float<T>(value / sum);
  }
}

template <class T, int kSize>
void decode(DecodeArgs args, std::int64_t rows, std::int64_t rows_at_once, cudaStream_t stream) {
  for (; args.first_row < rows; args.first_row += rows_at_once) {
    const std::int64_t now = std::min(rows_at_once, rows - args.first_row);
    const dim3 grid(static_cast<unsigned>(args.blocks), static_cast<unsigned>(args.kv_heads),
                    static_cast<unsigned>(now));
    launch<decode_kernel<T, kSize>>(grid, kHeads * kWarp, sizeof(DecodeShared<kSize>), stream,
                                    args);
    launch<combine_kernel<T>>(blocks_for(now * args.heads, kThreads / kWarp), kThreads, 0, stream,
                              args, now);
  }
}

}  // namespace

void kv_cache_write(const KvCacheWrite& args, cudaStream_t stream) {
  if (args.k.elements() == 0) return;
  const auto rows = [](const TensorView& from, const TensorView& to) {
    return CacheRows{from.data, to.data, from.stride(0), from.stride(1)};
  };
  const WriteArgs write{.k = rows(args.k, args.k_cache),
                        .v = rows(args.v, args.v_cache),
                        .slots = args.slots.i32(),
                        .positions = args.positions.i32(),
                        .tokens = args.k.shape[0],
                        .heads = args.k.shape[1],
                        .size = args.k.shape[2],
                        .cached_slots = args.k_cache.shape[0],
                        .length = args.k_cache.shape[2]};
  const unsigned blocks = blocks_for(args.k.elements(), kThreads);
  if (args.k.dtype == DType::BF16) {
    launch<kv_cache_write_kernel<bf16>>(blocks, kThreads, 0, stream, write);
  } else {
    launch<kv_cache_write_kernel<float>>(blocks, kThreads, 0, stream, write);
  }
}

void attention_decode(const AttentionDecode& args, const Workspace& workspace,
                      cudaStream_t stream) {
  const std::int64_t rows = args.q.shape[0];
  if (args.q.elements() == 0) return;
  DecodeArgs d{.q = args.q.data,
               .k = args.k_cache.data,
               .v = args.v_cache.data,
               .out = args.out.data,
               .q_token = args.q.stride(0),
               .q_head = args.q.stride(1),
               .out_token = args.out.stride(0),
               .out_head = args.out.stride(1),
               .slots = args.slots.i32(),
               .positions = args.positions.i32(),
               .heads = args.q.shape[1],
               .kv_heads = args.k_cache.shape[1],
               .size = args.q.shape[2],
               .cached_slots = args.k_cache.shape[0],
               .length = args.k_cache.shape[2],
               .window = args.window,
               .scale = args.scale};
  check_head_size(d.size, 1);
  const std::int64_t most = d.window == 0 ? d.length : std::min(d.window, d.length);
  d.blocks = (most + kKeys - 1) / kKeys;
  const std::int64_t of_row = d.heads * d.blocks * (2 + d.size);
  constexpr std::int64_t kMostRows = 65535;  // of a grid's third axis
  const std::int64_t fit = workspace.bytes / (of_row * 4);
  const std::int64_t at_once = std::max<std::int64_t>(1, std::min({rows, fit, kMostRows}));
  d.partials = scratch<float>(workspace, 0, at_once * of_row);
  for_head(args.q.dtype, d.size,
           [&]<class T, int kSize>() { decode<T, kSize>(d, rows, at_once, stream); });
}

}  // namespace flywheel::cuda

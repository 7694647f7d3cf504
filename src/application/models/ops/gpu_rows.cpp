#include "application/models/ops/gpu_rows.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <mutex>

#include "application/models/ops/gpu_source.h"
#include "core/error.h"
#include "core/gpu_kernel.h"

namespace chorus {
namespace {

constexpr const char* kMasks = R"(
__device__ inline void mask_group(const T* x, T* y, u64 row, unsigned g, unsigned width, u64 bits, unsigned threshold,
                                  float scale) {
  for (unsigned j = 0; j < 4 && 4 * g + j < width; ++j) {
    u64 at = row * width + 4 * g + j;
    store(y, at, load(x, at) * kept(bits, j, threshold, scale));
  }
}
extern "C" __global__ void mask_hidden(const T* x, T* y, const long long* seeds, u64 call, unsigned rows,
                                       unsigned width, unsigned total, unsigned threshold, float scale) {
  unsigned groups = (width + 3) / 4;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
    unsigned row = i / groups, g = i % groups;
    u64 bits = mask_hash(key_of(seeds, row / rows, call), (u64)(row % rows) * groups + g);
    mask_group(x, y, row, g, width, bits, threshold, scale);
  }
}
extern "C" __global__ void mask_weights(const T* x, T* y, const long long* seeds, u64 call, const long long* client_of,
                                        const long long* sequence_of, unsigned heads, unsigned queries, unsigned width,
                                        unsigned total, unsigned threshold, float scale) {
  unsigned groups = (width + 3) / 4;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
    unsigned row = i / groups, g = i % groups;
    unsigned q = row % queries, h = row / queries % heads, n = row / queries / heads;
    u64 start = ((((u64)sequence_of[n] * heads + h) << 16) + q) << 16;
    u64 bits = mask_hash(key_of(seeds, (unsigned)client_of[n], call), start / 4 + g);
    mask_group(x, y, row, g, width, bits, threshold, scale);
  }
}
)";

// A warp takes a row.
constexpr const char* kSoftmax = R"(
#define MOST 32
__device__ inline float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}
struct Row {
  unsigned seen;
  u64 key, group;
};
__device__ inline Row row_of(unsigned row, const long long* seeds, u64 call, const long long* client_of,
                             const long long* sequence_of, const long long* queries_of, const long long* keys_of,
                             unsigned heads, unsigned queries, unsigned causal, unsigned threshold) {
  unsigned q = row % queries, h = row / queries % heads, n = row / queries / heads;
  Row r;
  r.seen = (unsigned)keys_of[n];
  if (causal && q + 1 < r.seen) r.seen = q + 1;
  if (q >= (unsigned)queries_of[n]) r.seen = 0;
  r.key = threshold > 0 ? key_of(seeds, (unsigned)client_of[n], call) : 0;
  r.group = (((((u64)sequence_of[n] * heads + h) << 16) + q) << 16) / 4;
  return r;
}
extern "C" __global__ void attention_softmax(const T* s, T* p, T* masked, const long long* seeds, u64 call,
                                             const long long* client_of, const long long* sequence_of,
                                             const long long* queries_of, const long long* keys_of, unsigned heads,
                                             unsigned queries, unsigned width, unsigned rows, unsigned causal,
                                             float scale, unsigned threshold, float keep) {
  unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Row r = row_of(row, seeds, call, client_of, sequence_of, queries_of, keys_of, heads, queries, causal, threshold);
  u64 at = (u64)row * width;
  float x[MOST], top = -3e38f, sum = 0;
  for (unsigned i = 0, j = lane; j < r.seen; ++i, j += 32) {
    x[i] = load(s, at + j) * scale;
    top = fmaxf(top, x[i]);
  }
  top = warp_max(top);
  for (unsigned i = 0, j = lane; j < r.seen; ++i, j += 32) {
    x[i] = expf(x[i] - top);
    sum += x[i];
  }
  sum = warp_sum(sum);
  for (unsigned i = 0, j = lane; j < width; ++i, j += 32) {
    float value = j < r.seen ? x[i] / sum : 0.0f;
    store(p, at + j, value);
    if (threshold > 0) store(masked, at + j, value * kept(mask_hash(r.key, r.group + j / 4), j % 4, threshold, keep));
  }
}
extern "C" __global__ void attention_softmax_gradient(const T* d, const T* p, T* ds, const long long* seeds, u64 call,
                                                      const long long* client_of, const long long* sequence_of,
                                                      const long long* queries_of, const long long* keys_of,
                                                      unsigned heads, unsigned queries, unsigned width, unsigned rows,
                                                      unsigned causal, float scale, unsigned threshold, float keep) {
  unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Row r = row_of(row, seeds, call, client_of, sequence_of, queries_of, keys_of, heads, queries, causal, threshold);
  u64 at = (u64)row * width;
  float g[MOST], w[MOST], sum = 0;
  for (unsigned i = 0, j = lane; j < r.seen; ++i, j += 32) {
    w[i] = load(p, at + j);
    g[i] = load(d, at + j);
    if (threshold > 0) g[i] *= kept(mask_hash(r.key, r.group + j / 4), j % 4, threshold, keep);
    sum += g[i] * w[i];
  }
  sum = warp_sum(sum);
  for (unsigned i = 0, j = lane; j < width; ++i, j += 32) {
    store(ds, at + j, j < r.seen ? w[i] * (g[i] - sum) * scale : 0.0f);
  }
}
)";

// A warp takes a row, a lane every 32nd group of four neighbours; G is how many groups a lane has at most. Types: F of
// f, X of x, Y of the results.
constexpr const char* kNorm = R"(
__device__ inline float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
extern "C" __global__ void __launch_bounds__(256)
residual_norm(const F* f, const float* f_bias, long long f_bias_stride, const X* x, const float* weight,
              const float* bias, long long weight_stride, Y* normal, Y* y, float* inverse, const long long* seeds,
              u64 call, unsigned rows, unsigned width, unsigned total, unsigned threshold, float scale,
              float epsilon) {
  unsigned row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= total) return;
  unsigned client = row / rows, groups = width / 4;
  u64 key = threshold > 0 ? key_of(seeds, client, call) : 0, first = (u64)(row % rows) * groups, at = (u64)row * width;
  float s[G][4], sum = 0;
#pragma unroll
  for (unsigned i = 0; i < G; ++i) {
    unsigned g = lane + 32 * i;
    if (g >= groups) continue;
    load4(f, at + 4 * g, s[i]);
    u64 bits = threshold > 0 ? mask_hash(key, first + g) : 0;
    float others[4] = {};
    if (x != 0) load4(x, at + 4 * g, others);
    for (unsigned j = 0; j < 4; ++j) {
      if (f_bias != 0) s[i][j] += f_bias[client * f_bias_stride + 4 * g + j];
      if (threshold > 0) s[i][j] *= kept(bits, j, threshold, scale);
      s[i][j] += others[j];
      sum += s[i][j];
    }
  }
  float mean = warp_sum(sum) / width, squares = 0;
#pragma unroll
  for (unsigned i = 0; i < G; ++i) {
    if (lane + 32 * i >= groups) continue;
    for (unsigned j = 0; j < 4; ++j) {
      s[i][j] -= mean;
      squares += s[i][j] * s[i][j];
    }
  }
  float factor = 1.0f / sqrtf(warp_sum(squares) / width + epsilon);
  if (lane == 0) inverse[row] = factor;
  weight += client * weight_stride;
  bias += client * weight_stride;
#pragma unroll
  for (unsigned i = 0; i < G; ++i) {
    unsigned g = lane + 32 * i;
    if (g >= groups) continue;
    for (unsigned j = 0; j < 4; ++j) s[i][j] *= factor;
    store4(normal, at + 4 * g, s[i]);
    for (unsigned j = 0; j < 4; ++j) s[i][j] = s[i][j] * weight[4 * g + j] + bias[4 * g + j];
    store4(y, at + 4 * g, s[i]);
  }
}
// sums [3, clients, blocks, width] of weight, bias and f's bias.
extern "C" __global__ void __launch_bounds__(256, 2)
residual_norm_gradient(const Y* dy, const Y* normal, const float* inverse, const float* weight,
                       long long weight_stride, F* df, X* dx, float* sums, const long long* seeds, u64 call,
                       unsigned clients, unsigned rows, unsigned width, unsigned block_rows, unsigned threshold,
                       float scale) {
  __shared__ float shared[3][128 * G];
  unsigned client = blockIdx.y, groups = width / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned begin = blockIdx.x * block_rows, end = begin + block_rows < rows ? begin + block_rows : rows;
  u64 key = threshold > 0 ? key_of(seeds, client, call) : 0;
  weight += client * weight_stride;
  float dweight[G][4] = {}, dbias[G][4] = {}, df_bias[G][4] = {};
  for (unsigned r = begin + warp; r < end; r += 8) {
    u64 row = (u64)client * rows + r, at = row * width;
    float d[G][4], n[G][4], sum = 0, slope = 0;
#pragma unroll
    for (unsigned i = 0; i < G; ++i) {
      unsigned g = lane + 32 * i;
      if (g >= groups) continue;
      load4(dy, at + 4 * g, d[i]);
      load4(normal, at + 4 * g, n[i]);
      for (unsigned j = 0; j < 4; ++j) {
        dweight[i][j] += d[i][j] * n[i][j];
        dbias[i][j] += d[i][j];
        d[i][j] *= weight[4 * g + j];
        sum += d[i][j];
        slope += d[i][j] * n[i][j];
      }
    }
    sum = warp_sum(sum) / width;
    slope = warp_sum(slope) / width;
    float factor = inverse[row];
#pragma unroll
    for (unsigned i = 0; i < G; ++i) {
      unsigned g = lane + 32 * i;
      if (g >= groups) continue;
      for (unsigned j = 0; j < 4; ++j) d[i][j] = factor * (d[i][j] - sum - n[i][j] * slope);
      if (dx != 0) store4(dx, at + 4 * g, d[i]);
      u64 bits = threshold > 0 ? mask_hash(key, (u64)r * groups + g) : 0;
      for (unsigned j = 0; j < 4; ++j) {
        if (threshold > 0) d[i][j] *= kept(bits, j, threshold, scale);
        df_bias[i][j] += d[i][j];
      }
      if (df != 0) store4(df, at + 4 * g, d[i]);
    }
  }
  if (sums == 0) return;
  // One warp after the other, so that the sum is always the same.
  for (unsigned w = 0; w < 8; ++w) {
    if (w == warp) {
#pragma unroll
      for (unsigned i = 0; i < G; ++i)
        for (unsigned j = 0; j < 4; ++j) {
          unsigned k = 4 * (lane + 32 * i) + j;
          shared[0][k] = (w == 0 ? 0 : shared[0][k]) + dweight[i][j];
          shared[1][k] = (w == 0 ? 0 : shared[1][k]) + dbias[i][j];
          shared[2][k] = (w == 0 ? 0 : shared[2][k]) + df_bias[i][j];
        }
    }
    __syncthreads();
  }
  u64 at = ((u64)client * gridDim.x + blockIdx.x) * width, third = (u64)clients * gridDim.x * width;
  for (unsigned k = threadIdx.x; k < width; k += 256)
    for (unsigned part = 0; part < 3; ++part) sums[part * third + at + k] = shared[part][k];
}
)";

// Gradients of small parameters, added to what is there; a client's lie `stride` after the one before.
constexpr const char* kSums = R"(
extern "C" __global__ void fold_sums(const float* sums, float* out, long long stride, unsigned blocks,
                                     unsigned width) {
  unsigned k = blockIdx.x * blockDim.x + threadIdx.x, client = blockIdx.y;
  if (k >= width) return;
  float sum = 0;
  for (unsigned b = 0; b < blocks; ++b) sum += sums[((u64)client * blocks + b) * width + k];
  out[client * stride + k] += sum;
}
// A block takes 64 columns, a warp every 16th row.
extern "C" __global__ void __launch_bounds__(512)
column_sums(const T* x, float* out, long long stride, unsigned rows, unsigned width) {
  __shared__ float shared[16][64];
  unsigned client = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 64 + 2 * lane;
  float low = 0, high = 0;
  const T* from = x + (u64)client * rows * width;
  if (width % 2 == 0 && column < width) {
#pragma unroll 8
    for (unsigned r = warp; r < rows; r += 16) {
      float v[2];
      load2(from, (u64)r * width + column, v);
      low += v[0];
      high += v[1];
    }
  } else {
    for (unsigned r = warp; r < rows; r += 16) {
      if (column < width) low += load(from, (u64)r * width + column);
      if (column + 1 < width) high += load(from, (u64)r * width + column + 1);
    }
  }
  shared[warp][2 * lane] = low;
  shared[warp][2 * lane + 1] = high;
  __syncthreads();
  if (threadIdx.x >= 64 || blockIdx.x * 64 + threadIdx.x >= width) return;
  float sum = 0;
  for (unsigned w = 0; w < 16; ++w) sum += shared[w][threadIdx.x];
  out[client * stride + blockIdx.x * 64 + threadIdx.x] += sum;
}
// The rows of tables that tokens looked up. A thread adds neighbouring tokens of one row before it writes.
extern "C" __global__ void lookup_gradient(const T* dy, const long long* ids, float* tables, long long stride,
                                           long long padding, unsigned tokens, unsigned width) {
  unsigned client = blockIdx.y, begin = blockIdx.x * 32, end = begin + 32 < tokens ? begin + 32 : tokens;
  ids += (u64)client * tokens;
  dy += (u64)client * tokens * width;
  tables += client * stride;
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) {
    float sum = 0;
    for (unsigned t = begin; t < end; ++t) {
      sum += load(dy, (u64)t * width + k);
      if (t + 1 < end && ids[t + 1] == ids[t]) continue;
      if (ids[t] != padding && sum != 0) atomicAdd(tables + ids[t] * width + k, sum);
      sum = 0;
    }
  }
}
)";

// x + bias, gelu(x + bias), and back; a block takes rows of a client, a thread four neighbours of each.
constexpr const char* kGelu = R"(
__device__ inline float gelu(float x) {
  if (BY_TANH) return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  return 0.5f * x * (1 + erff(x * 0.7071067811865476f));
}
__device__ inline float slope(float x) {
  if (BY_TANH) {
    float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  }
  return 0.5f * (1 + erff(x * 0.7071067811865476f)) + x * 0.3989422804014327f * __expf(-0.5f * x * x);
}
__device__ inline void bias_of(const float* bias, long long stride, unsigned k, float* v) {
  for (unsigned j = 0; j < 4; ++j) v[j] = bias == 0 ? 0 : bias[blockIdx.y * stride + k + j];
}
extern "C" __global__ void add_bias(T* x, const float* bias, long long stride, unsigned rows, unsigned width) {
  unsigned k = 4 * (blockIdx.x % CHUNKS * blockDim.x + threadIdx.x), step = gridDim.x / CHUNKS;
  if (k >= width) return;
  float b[4], v[4];
  bias_of(bias, stride, k, b);
#pragma unroll 4
  for (unsigned r = blockIdx.x / CHUNKS; r < rows; r += step) {
    u64 at = ((u64)blockIdx.y * rows + r) * width + k;
    load4(x, at, v);
    for (unsigned j = 0; j < 4; ++j) v[j] += b[j];
    store4(x, at, v);
  }
}
extern "C" __global__ void bias_gelu(const T* x, const float* bias, long long stride, T* y, unsigned rows,
                                     unsigned width) {
  unsigned k = 4 * (blockIdx.x % CHUNKS * blockDim.x + threadIdx.x), step = gridDim.x / CHUNKS;
  if (k >= width) return;
  float b[4], v[4];
  bias_of(bias, stride, k, b);
#pragma unroll 4
  for (unsigned r = blockIdx.x / CHUNKS; r < rows; r += step) {
    u64 at = ((u64)blockIdx.y * rows + r) * width + k;
    load4(x, at, v);
    for (unsigned j = 0; j < 4; ++j) v[j] = gelu(v[j] + b[j]);
    store4(y, at, v);
  }
}
extern "C" __global__ void bias_gelu_gradient(const T* x, const float* bias, long long stride, const T* dy, T* dx,
                                              unsigned rows, unsigned width) {
  unsigned k = 4 * (blockIdx.x % CHUNKS * blockDim.x + threadIdx.x), step = gridDim.x / CHUNKS;
  if (k >= width) return;
  float b[4], v[4], d[4];
  bias_of(bias, stride, k, b);
#pragma unroll 4
  for (unsigned r = blockIdx.x / CHUNKS; r < rows; r += step) {
    u64 at = ((u64)blockIdx.y * rows + r) * width + k;
    load4(x, at, v);
    load4(dy, at, d);
    for (unsigned j = 0; j < 4; ++j) d[j] *= slope(v[j] + b[j]);
    store4(dx, at, d);
  }
}
)";

// A block takes a row of logits; then one a client's rows.
constexpr const char* kLoss = R"(
__device__ inline float block_of(float x, bool largest) {
  __shared__ float parts[8];
  for (int d = 16; d > 0; d /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, x, d);
    x = largest ? fmaxf(x, other) : x + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) x = largest ? fmaxf(x, parts[w]) : x + parts[w];
  return x;
}
extern "C" __global__ void row_losses(const T* x, const long long* labels, float* logs, float* losses, unsigned width,
                                      long long ignored) {
  u64 row = blockIdx.x, at = row * width;
  if (labels[row] == ignored) {
    if (threadIdx.x == 0) logs[row] = losses[row] = 0;
    return;
  }
  float top = -3e38f, sum = 0;
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) top = fmaxf(top, load(x, at + k));
  top = block_of(top, true);
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) sum += expf(load(x, at + k) - top);
  sum = block_of(sum, false);
  if (threadIdx.x != 0) return;
  logs[row] = top + logf(sum);
  losses[row] = logs[row] - load(x, at + labels[row]);
}
extern "C" __global__ void mean_losses(const float* losses, const long long* labels, float* loss, float* counts,
                                       unsigned rows, long long ignored) {
  u64 at = (u64)blockIdx.x * rows;
  float sum = 0, count = 0;
  for (unsigned r = threadIdx.x; r < rows; r += blockDim.x) {
    if (labels[at + r] == ignored) continue;
    sum += losses[at + r];
    count += 1;
  }
  sum = block_of(sum, false);
  count = fmaxf(block_of(count, false), 1);
  if (threadIdx.x != 0) return;
  loss[blockIdx.x] = sum / count;
  counts[blockIdx.x] = count;
}
extern "C" __global__ void loss_gradient(const float* gradient, const T* x, const long long* labels, const float* logs,
                                         const float* counts, T* dx, unsigned rows, unsigned width,
                                         long long ignored) {
  u64 row = blockIdx.x, at = row * width;
  unsigned client = row / rows;
  long long label = labels[row];
  float factor = label == ignored ? 0 : gradient[client] / counts[client];
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) {
    float share = label == ignored ? 0 : expf(load(x, at + k) - logs[row]) - (k == label ? 1 : 0);
    store(dx, at + k, share * factor);
  }
}
)";

constexpr int kThreads = 256;
constexpr std::int64_t kMostWidth = 16 * kThreads;
constexpr std::int64_t kNormRows = 8;  // of a block: a warp each
constexpr std::int64_t kWidestNorm = 2048;
constexpr std::int64_t kBlockRows = 32;  // of a block of the gradient

constexpr const char* kTypes[2] = {"float", "bf16"};
std::size_t type_of(at::ScalarType type) { return type == at::kBFloat16 ? 1 : 0; }

const GpuKernel& mask_kernel(at::ScalarType type, const char* name) {
  const auto make = [](std::size_t t, const char* of) {
    return GpuKernel(of, fmt::format("{}typedef {} T;\n{}", kGpuPrelude, kTypes[t], kMasks));
  };
  static const GpuKernel hidden[2] = {make(0, "mask_hidden"), make(1, "mask_hidden")};
  static const GpuKernel weights[2] = {make(0, "mask_weights"), make(1, "mask_weights")};
  return (std::string_view(name) == "mask_hidden" ? hidden : weights)[type_of(type)];
}

// G of a row's width, so that few are compiled.
std::size_t groups_for(std::int64_t width) {
  for (const std::size_t groups : {1, 2, 4, 6, 8, 16}) {
    if (width <= 128 * static_cast<std::int64_t>(groups)) return groups;
  }
  throw InternalError("a row too wide for a norm's kernel");
}

// Kernels by what is defined for their source.
const GpuKernel& kernel_for(const char* name, const std::string& defined, const char* source) {
  static std::mutex mutex;
  static std::map<std::string, GpuKernel> known;
  const std::lock_guard lock(mutex);
  const std::string key = name + defined;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.try_emplace(key, name, fmt::format("{}{}{}", kGpuPrelude, defined, source)).first->second;
}

const GpuKernel& norm_kernel(const char* name, at::ScalarType f, at::ScalarType x, at::ScalarType y,
                             std::int64_t width) {
  return kernel_for(name,
                    fmt::format("#define G {}\ntypedef {} F;\ntypedef {} X;\ntypedef {} Y;\n", groups_for(width),
                                kTypes[type_of(f)], kTypes[type_of(x)], kTypes[type_of(y)]),
                    kNorm);
}

const GpuKernel& loss_kernel(const char* name, at::ScalarType type) {
  return kernel_for(name, fmt::format("typedef {} T;\n", kTypes[type_of(type)]), kLoss);
}

int loss_threads(const at::Tensor& logits) { return logits.size(2) > 64 ? kThreads : 32; }

const GpuKernel& sum_kernel(const char* name, at::ScalarType type) {
  return kernel_for(name, fmt::format("typedef {} T;\n", kTypes[type_of(type)]), kSums);
}

// Rows of four neighbours a thread: CHUNKS blocks of 256 for a row, and the rows of a client shared out to a few.
struct Rowwise {
  Rowwise(const char* name, const at::Tensor& x, bool by_tanh)
      : clients(x.size(0)),
        rows(static_cast<unsigned>(x.size(1))),
        width(static_cast<unsigned>(x.size(2))),
        chunks((x.size(2) / 4 + kThreads - 1) / kThreads),
        kernel(kernel_for(name,
                          fmt::format("#define CHUNKS {}\n#define BY_TANH {}\ntypedef {} T;\n", chunks, by_tanh ? 1 : 0,
                                      kTypes[type_of(x.scalar_type())]),
                          kGelu)) {}
  GpuKernel::Grid grid() const {
    return {chunks * std::max<std::int64_t>(1, (static_cast<std::int64_t>(rows) + 7) / 8), kThreads, clients};
  }
  std::int64_t clients;
  unsigned rows, width;
  std::int64_t chunks;
  const GpuKernel& kernel;
};

// A small parameter [H] of all, or [C, H].
struct OfClient {
  explicit OfClient(const at::Tensor& tensor)
      : data(tensor.defined() ? tensor.data_ptr<float>() : nullptr),
        stride(tensor.defined() && tensor.dim() == 2 ? tensor.stride(0) : 0) {}
  float* data;
  std::int64_t stride;
};

const GpuKernel& softmax_kernel(at::ScalarType type, bool gradient) {
  const auto make = [](std::size_t t, const char* name) {
    return GpuKernel(name, fmt::format("{}typedef {} T;\n{}", kGpuPrelude, kTypes[t], kSoftmax));
  };
  static const GpuKernel forward[2] = {make(0, "attention_softmax"), make(1, "attention_softmax")};
  static const GpuKernel backward[2] = {make(0, "attention_softmax_gradient"), make(1, "attention_softmax_gradient")};
  return (gradient ? backward : forward)[type_of(type)];
}

std::int64_t blocks_for(std::int64_t threads) {
  return std::min<std::int64_t>((threads + kThreads - 1) / kThreads, 65535);
}

const std::int64_t* seeds_of(const Dropout::Site& site) {
  return site.threshold == 0 ? nullptr : site.seeds.data_ptr<std::int64_t>();
}

}  // namespace

bool gpu_rows_can(const at::Tensor& x) {
  return GpuKernel::works_on(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         x.size(-1) <= kMostWidth && x.numel() < std::numeric_limits<std::int32_t>::max();
}

at::Tensor gpu_mask_hidden(const at::Tensor& x, const Dropout::Site& site) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = torch::empty_like(from);
  const auto rows = static_cast<unsigned>(x.size(1)), width = static_cast<unsigned>(x.size(2));
  const auto total = static_cast<unsigned>(x.size(0) * x.size(1) * ((x.size(2) + 3) / 4));
  mask_kernel(x.scalar_type(), "mask_hidden")
      .launch({blocks_for(total), kThreads}, from.data_ptr(), to.data_ptr(), seeds_of(site), site.call, rows, width,
              total, static_cast<unsigned>(site.threshold), site.scale);
  return to;
}

at::Tensor gpu_mask_weights(const at::Tensor& x, const Dropout::Site& site, const at::Tensor& client_of,
                            const at::Tensor& sequence_of) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = torch::empty_like(from);
  const auto heads = static_cast<unsigned>(x.size(1)), queries = static_cast<unsigned>(x.size(2));
  const auto width = static_cast<unsigned>(x.size(3));
  const auto total = static_cast<unsigned>(x.size(0) * x.size(1) * x.size(2) * ((x.size(3) + 3) / 4));
  mask_kernel(x.scalar_type(), "mask_weights")
      .launch({blocks_for(total), kThreads}, from.data_ptr(), to.data_ptr(), seeds_of(site), site.call,
              client_of.data_ptr<std::int64_t>(), sequence_of.data_ptr<std::int64_t>(), heads, queries, width, total,
              static_cast<unsigned>(site.threshold), site.scale);
  return to;
}

namespace {

// Both kernels take three tensors and the same of everything else.
void launch_softmax(const GpuKernel& kernel, void* first, void* second, void* third, const at::Tensor& shape,
                    const GpuSoftmaxCall& call) {
  const auto heads = static_cast<unsigned>(shape.size(1)), queries = static_cast<unsigned>(shape.size(2));
  const auto width = static_cast<unsigned>(shape.size(3));
  const auto rows = static_cast<unsigned>(shape.size(0) * shape.size(1) * shape.size(2));
  kernel.launch({(static_cast<std::int64_t>(rows) * 32 + kThreads - 1) / kThreads, kThreads}, first, second, third,
                seeds_of(call.site), call.site.call, call.client_of.data_ptr<std::int64_t>(),
                call.sequence_of.data_ptr<std::int64_t>(), call.queries_of.data_ptr<std::int64_t>(),
                call.keys_of.data_ptr<std::int64_t>(), heads, queries, width, rows,
                static_cast<unsigned>(call.causal ? 1 : 0), static_cast<float>(call.scale),
                static_cast<unsigned>(call.site.threshold), call.site.scale);
}

}  // namespace

GpuSoftmax gpu_attention_softmax(const at::Tensor& scores, const GpuSoftmaxCall& call) {
  const at::Tensor from = scores.contiguous();
  GpuSoftmax result{torch::empty_like(from), {}};
  result.masked = call.site.threshold == 0 ? result.weights : torch::empty_like(from);
  launch_softmax(softmax_kernel(scores.scalar_type(), false), from.data_ptr(), result.weights.data_ptr(),
                 result.masked.data_ptr(), from, call);
  return result;
}

at::Tensor gpu_attention_softmax_gradient(const at::Tensor& gradient, const at::Tensor& weights,
                                          const GpuSoftmaxCall& call) {
  const at::Tensor up = gradient.to(weights.scalar_type()).contiguous();
  at::Tensor result = torch::empty_like(weights);
  launch_softmax(softmax_kernel(weights.scalar_type(), true), up.data_ptr(), weights.data_ptr(), result.data_ptr(),
                 weights, call);
  return result;
}

bool gpu_norm_can(const at::Tensor& f) { return gpu_rows_can(f) && f.size(-1) % 4 == 0 && f.size(-1) <= kWidestNorm; }

GpuNorm gpu_residual_norm(const GpuNormInput& input, at::ScalarType type) {
  const at::Tensor f = input.f.contiguous(), x = input.x.defined() ? input.x.contiguous() : at::Tensor();
  const std::int64_t all = f.size(0) * f.size(1), width = f.size(2);
  const auto options = f.options().dtype(type);
  GpuNorm result{torch::empty(f.sizes(), options), torch::empty(f.sizes(), options),
                 torch::empty({all}, f.options().dtype(at::kFloat))};
  const OfClient weight(input.weight), bias(input.bias), f_bias(input.f_bias);
  check(weight.stride == bias.stride, "weight and bias of a norm train alike");
  norm_kernel("residual_norm", f.scalar_type(), (x.defined() ? x : f).scalar_type(), type, width)
      .launch({(all + kNormRows - 1) / kNormRows, kThreads}, f.data_ptr(), f_bias.data, f_bias.stride,
              x.defined() ? x.data_ptr() : nullptr, weight.data, bias.data, weight.stride, result.normal.data_ptr(),
              result.y.data_ptr(), result.inverse.data_ptr<float>(), seeds_of(input.site), input.site.call,
              static_cast<unsigned>(f.size(1)), static_cast<unsigned>(width), static_cast<unsigned>(all),
              static_cast<unsigned>(input.site.threshold), input.site.scale, static_cast<float>(input.epsilon));
  return result;
}

GpuNormGradient gpu_residual_norm_gradient(const at::Tensor& dy, const GpuNorm& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, const GpuNormWish& wish) {
  const at::ScalarType type = forward.normal.scalar_type();
  const at::Tensor up = dy.to(type).contiguous();
  const std::int64_t clients = dy.size(0), rows = dy.size(1), width = dy.size(2);
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const auto made = [&](const std::optional<at::ScalarType>& of) {
    return of ? torch::empty(dy.sizes(), up.options().dtype(*of)) : at::Tensor();
  };
  GpuNormGradient result{made(wish.f), made(wish.x), {}};
  // Without dropout both are the same numbers.
  const bool same = site.threshold == 0 && wish.f && wish.f == wish.x;
  if (same) result.dx = result.df;
  if (wish.sums) result.sums = torch::empty({3, clients, blocks, width}, up.options().dtype(at::kFloat));
  const OfClient weights(weight);
  norm_kernel("residual_norm_gradient", wish.f.value_or(type), wish.x.value_or(type), type, width)
      .launch({blocks, kThreads, clients}, up.data_ptr(), forward.normal.data_ptr(), forward.inverse.data_ptr<float>(),
              weights.data, weights.stride, wish.f ? result.df.data_ptr() : nullptr,
              wish.x && !same ? result.dx.data_ptr() : nullptr, wish.sums ? result.sums.data_ptr<float>() : nullptr,
              seeds_of(site), site.call, static_cast<unsigned>(clients), static_cast<unsigned>(rows),
              static_cast<unsigned>(width), static_cast<unsigned>(kBlockRows), static_cast<unsigned>(site.threshold),
              site.scale);
  return result;
}

bool gpu_loss_can(const at::Tensor& logits) {
  return GpuKernel::works_on(logits) && logits.dim() == 3 &&
         (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kBFloat16) &&
         logits.size(0) * logits.size(1) < std::numeric_limits<std::int32_t>::max();
}

GpuLoss gpu_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored) {
  const std::int64_t clients = logits.size(0), rows = logits.size(1);
  const auto options = logits.options().dtype(at::kFloat);
  GpuLoss result{torch::empty({clients}, options), torch::empty({clients * rows}, options),
                 torch::empty({clients}, options)};
  const at::Tensor losses = torch::empty({clients * rows}, options);
  loss_kernel("row_losses", logits.scalar_type())
      .launch({clients * rows, loss_threads(logits)}, logits.data_ptr(), labels.data_ptr<std::int64_t>(),
              result.logs.data_ptr<float>(), losses.data_ptr<float>(), static_cast<unsigned>(logits.size(2)), ignored);
  loss_kernel("mean_losses", at::kFloat)
      .launch({clients, kThreads}, losses.data_ptr<float>(), labels.data_ptr<std::int64_t>(),
              result.loss.data_ptr<float>(), result.counts.data_ptr<float>(), static_cast<unsigned>(rows), ignored);
  return result;
}

at::Tensor gpu_cross_entropy_gradient(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                                      const GpuLoss& forward, std::int64_t ignored) {
  const at::Tensor up = gradient.to(at::kFloat).contiguous();
  at::Tensor dx = torch::empty_like(logits);
  loss_kernel("loss_gradient", logits.scalar_type())
      .launch({logits.size(0) * logits.size(1), loss_threads(logits)}, up.data_ptr<float>(), logits.data_ptr(),
              labels.data_ptr<std::int64_t>(), forward.logs.data_ptr<float>(), forward.counts.data_ptr<float>(),
              dx.data_ptr(), static_cast<unsigned>(logits.size(1)), static_cast<unsigned>(logits.size(2)), ignored);
  return dx;
}

void gpu_fold_sums(const at::Tensor& sums, const at::Tensor& gradients) {
  const std::int64_t width = sums.size(2);
  sum_kernel("fold_sums", at::kFloat)
      .launch({(width + kThreads - 1) / kThreads, kThreads, sums.size(0)}, sums.data_ptr<float>(),
              gradients.data_ptr<float>(), gradients.stride(0), static_cast<unsigned>(sums.size(1)),
              static_cast<unsigned>(width));
}

void gpu_column_sums(const at::Tensor& rows, const at::Tensor& gradients) {
  const at::Tensor from = rows.contiguous();
  sum_kernel("column_sums", from.scalar_type())
      .launch({(from.size(2) + 63) / 64, 512, from.size(0)}, from.data_ptr(), gradients.data_ptr<float>(),
              gradients.stride(0), static_cast<unsigned>(from.size(1)), static_cast<unsigned>(from.size(2)));
}

void gpu_lookup_gradient(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& gradients,
                         std::int64_t padding) {
  const at::Tensor from = rows.contiguous(), names = ids.contiguous();
  sum_kernel("lookup_gradient", from.scalar_type())
      .launch({(from.size(1) + 31) / 32, kThreads, from.size(0)}, from.data_ptr(), names.data_ptr<std::int64_t>(),
              gradients.data_ptr<float>(), gradients.stride(0), padding, static_cast<unsigned>(from.size(1)),
              static_cast<unsigned>(from.size(2)));
}

void gpu_add_bias(const at::Tensor& x, const at::Tensor& bias) {
  const OfClient biases(bias);
  const Rowwise by("add_bias", x, false);
  by.kernel.launch(by.grid(), x.data_ptr(), biases.data, biases.stride, by.rows, by.width);
}

at::Tensor gpu_bias_gelu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh) {
  const at::Tensor from = x.contiguous();
  at::Tensor y = torch::empty_like(from);
  const OfClient biases(bias);
  const Rowwise by("bias_gelu", from, by_tanh);
  by.kernel.launch(by.grid(), from.data_ptr(), biases.data, biases.stride, y.data_ptr(), by.rows, by.width);
  return y;
}

at::Tensor gpu_bias_gelu_gradient(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& dy, bool by_tanh) {
  const at::Tensor from = x.contiguous(), up = dy.to(x.scalar_type()).contiguous();
  at::Tensor dx = torch::empty_like(from);
  const OfClient biases(bias);
  const Rowwise by("bias_gelu_gradient", from, by_tanh);
  by.kernel.launch(by.grid(), from.data_ptr(), biases.data, biases.stride, up.data_ptr(), dx.data_ptr(), by.rows,
                   by.width);
  return dx;
}

}  // namespace chorus

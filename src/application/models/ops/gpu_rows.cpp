#include "application/models/ops/gpu_rows.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <mutex>

#include "application/models/ops/gpu_source.h"
#include "core/base/error.h"
#include "core/device/gpu_kernel.h"

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

// Gradients of small parameters, added to what is there; a client's lie `stride` after the one before.
constexpr const char* kSums = R"(
extern "C" __global__ void fold_sums(const float* sums, float* out0, long long stride0, float* out1,
                                     long long stride1, float* out2, long long stride2, unsigned clients,
                                     unsigned blocks, unsigned width) {
  unsigned k = blockIdx.x * blockDim.x + threadIdx.x, which = blockIdx.y / clients, client = blockIdx.y % clients;
  float* out = which == 0 ? out0 : which == 1 ? out1 : out2;
  if (k >= width || out == 0) return;
  float sum = 0;
  for (unsigned b = 0; b < blocks; ++b) sum += sums[((u64)blockIdx.y * blocks + b) * width + k];
  out[client * (which == 0 ? stride0 : which == 1 ? stride1 : stride2) + k] += sum;
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
  v[0] = v[1] = v[2] = v[3] = 0;
  if (bias != 0) load4(bias, blockIdx.y * stride + k, v);
}
template <typename Function>
__device__ inline void with_bias(const T* x, const float* bias, long long stride, T* y, unsigned rows, unsigned width,
                                 Function function) {
  unsigned k = 4 * (blockIdx.x % CHUNKS * blockDim.x + threadIdx.x), step = gridDim.x / CHUNKS;
  if (k >= width) return;
  float b[4], v[4];
  bias_of(bias, stride, k, b);
#pragma unroll 4
  for (unsigned r = blockIdx.x / CHUNKS; r < rows; r += step) {
    u64 at = ((u64)blockIdx.y * rows + r) * width + k;
    load4(x, at, v);
    for (unsigned j = 0; j < 4; ++j) v[j] = function(v[j] + b[j]);
    store4(y, at, v);
  }
}
extern "C" __global__ void add_bias(T* x, const float* bias, long long stride, unsigned rows, unsigned width) {
  with_bias(x, bias, stride, x, rows, width, [](float v) { return v; });
}
extern "C" __global__ void bias_gelu(const T* x, const float* bias, long long stride, T* y, unsigned rows,
                                     unsigned width) {
  with_bias(x, bias, stride, y, rows, width, [](float v) { return gelu(v); });
}
// Rows [begin, begin + block_rows) of a block, and the sums of their gradients: sums [clients, blocks, width], or null.
extern "C" __global__ void bias_gelu_gradient(const T* x, const float* bias, long long stride, const T* dy, T* dx,
                                              float* sums, unsigned rows, unsigned width, unsigned block_rows) {
  unsigned k = 4 * (blockIdx.x % CHUNKS * blockDim.x + threadIdx.x), block = blockIdx.x / CHUNKS;
  unsigned begin = block * block_rows, end = begin + block_rows < rows ? begin + block_rows : rows;
  if (k >= width) return;
  float b[4], v[4], d[4], sum[4] = {};
  bias_of(bias, stride, k, b);
#pragma unroll 4
  for (unsigned r = begin; r < end; ++r) {
    u64 at = ((u64)blockIdx.y * rows + r) * width + k;
    load4(x, at, v);
    load4(dy, at, d);
    for (unsigned j = 0; j < 4; ++j) {
      d[j] *= slope(v[j] + b[j]);
      sum[j] += d[j];
    }
    store4(dx, at, d);
  }
  if (sums != 0) store4(sums, ((u64)blockIdx.y * (gridDim.x / CHUNKS) + block) * width + k, sum);
}
)";

constexpr std::int64_t kMostWidth = 16 * kGpuThreads;
constexpr std::int64_t kGeluRows = 16;  // of a block of the gradient

const GpuKernel& mask_kernel(at::ScalarType type, const char* name) {
  return gpu_kernel_for(name, fmt::format("typedef {} T;\n", gpu_type(type)), kMasks);
}

const GpuKernel& sum_kernel(const char* name, at::ScalarType type) {
  return gpu_kernel_for(name, fmt::format("typedef {} T;\n", gpu_type(type)), kSums);
}

// Rows of four neighbours a thread: CHUNKS blocks of 256 for a row, and the rows of a client shared out to a few.
struct Rowwise {
  Rowwise(const char* name, const at::Tensor& x, bool by_tanh)
      : clients(x.size(0)),
        rows(static_cast<unsigned>(x.size(1))),
        width(static_cast<unsigned>(x.size(2))),
        chunks((x.size(2) / 4 + kGpuThreads - 1) / kGpuThreads),
        kernel(gpu_kernel_for(name,
                              fmt::format("#define CHUNKS {}\n#define BY_TANH {}\ntypedef {} T;\n", chunks,
                                          by_tanh ? 1 : 0, gpu_type(x.scalar_type())),
                              kGelu)) {}
  GpuKernel::Grid grid() const {
    return {chunks * std::max<std::int64_t>(1, (static_cast<std::int64_t>(rows) + 7) / 8), kGpuThreads, clients};
  }
  std::int64_t clients;
  unsigned rows, width;
  std::int64_t chunks;
  const GpuKernel& kernel;
};

const GpuKernel& softmax_kernel(at::ScalarType type, bool gradient) {
  return gpu_kernel_for(gradient ? "attention_softmax_gradient" : "attention_softmax",
                        fmt::format("typedef {} T;\n", gpu_type(type)), kSoftmax);
}

std::int64_t blocks_for(std::int64_t threads) {
  return std::min<std::int64_t>((threads + kGpuThreads - 1) / kGpuThreads, 65535);
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
      .launch({blocks_for(total), kGpuThreads}, from.data_ptr(), to.data_ptr(), seeds_of(site), site.call, rows, width,
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
      .launch({blocks_for(total), kGpuThreads}, from.data_ptr(), to.data_ptr(), seeds_of(site), site.call,
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
  kernel.launch({(static_cast<std::int64_t>(rows) * 32 + kGpuThreads - 1) / kGpuThreads, kGpuThreads}, first, second,
                third, seeds_of(call.site), call.site.call, call.client_of.data_ptr<std::int64_t>(),
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

void gpu_fold_sums(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients) {
  const std::int64_t clients = sums.size(1), width = sums.size(3);
  const auto data = [&](std::size_t i) { return gradients[i].defined() ? gradients[i].data_ptr<float>() : nullptr; };
  const auto stride = [&](std::size_t i) { return gradients[i].defined() ? gradients[i].stride(0) : std::int64_t{0}; };
  sum_kernel("fold_sums", at::kFloat)
      .launch({(width + kGpuThreads - 1) / kGpuThreads, kGpuThreads, sums.size(0) * clients}, sums.data_ptr<float>(),
              data(0), stride(0), data(1), stride(1), data(2), stride(2), static_cast<unsigned>(clients),
              static_cast<unsigned>(sums.size(2)), static_cast<unsigned>(width));
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
      .launch({(from.size(1) + 31) / 32, kGpuThreads, from.size(0)}, from.data_ptr(), names.data_ptr<std::int64_t>(),
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

at::Tensor gpu_bias_gelu_gradient(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& dy, bool by_tanh,
                                  const at::Tensor& bias_gradient) {
  const at::Tensor from = x.contiguous(), up = dy.to(x.scalar_type()).contiguous();
  at::Tensor dx = torch::empty_like(from);
  const OfClient biases(bias);
  const Rowwise by("bias_gelu_gradient", from, by_tanh);
  const std::int64_t blocks = (x.size(1) + kGeluRows - 1) / kGeluRows;
  at::Tensor sums;
  if (bias_gradient.defined()) sums = torch::empty({1, by.clients, blocks, x.size(2)}, bias_gradient.options());
  by.kernel.launch({by.chunks * blocks, kGpuThreads, by.clients}, from.data_ptr(), biases.data, biases.stride,
                   up.data_ptr(), dx.data_ptr(), sums.defined() ? sums.data_ptr<float>() : nullptr, by.rows, by.width,
                   static_cast<unsigned>(kGeluRows));
  if (sums.defined()) gpu_fold_sums(sums, {bias_gradient});
  return dx;
}

}  // namespace chorus

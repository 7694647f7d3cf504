#include "application/models/ops/gpu_rows.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/error.h"
#include "core/gpu_kernel.h"

namespace chorus {
namespace {

constexpr const char* kPrelude = R"(
typedef unsigned long long u64;
struct bf16 { unsigned short bits; };
__device__ inline float load(const float* p, u64 i) { return p[i]; }
__device__ inline float load(const bf16* p, u64 i) { return __uint_as_float((unsigned)p[i].bits << 16); }
__device__ inline void store(float* p, u64 i, float x) { p[i] = x; }
__device__ inline void store(bf16* p, u64 i, float x) {
  unsigned u = __float_as_uint(x);
  // to the nearest, ties to even; what is no number stays one
  p[i].bits = x != x ? 0x7FC0 : (unsigned short)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}
__device__ inline u64 mask_hash(u64 key, u64 group) {
  u64 z = key + 0x9E3779B97F4A7C15ULL * group;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
__device__ inline u64 key_of(const long long* seeds, unsigned client, u64 call) {
  return mask_hash((u64)seeds[client], call + 1);
}
__device__ inline float kept(u64 bits, unsigned j, unsigned threshold, float scale) {
  return (unsigned)((bits >> (16 * j)) & 0xFFFF) < threshold ? 0.0f : scale;
}
)";

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

// A block takes a row, a thread every blockDim.x-th element.
constexpr const char* kNorm = R"(
#define MOST 16
__device__ inline float2 block_sum(float a, float b) {
  __shared__ float2 parts[32];
  for (int d = 16; d > 0; d /= 2) {
    a += __shfl_down_sync(0xffffffffu, a, d);
    b += __shfl_down_sync(0xffffffffu, b, d);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = make_float2(a, b);
  __syncthreads();
  float2 total = make_float2(0, 0);
  for (unsigned w = 0; w < blockDim.x / 32; ++w) { total.x += parts[w].x; total.y += parts[w].y; }
  return total;
}
extern "C" __global__ void residual_norm(const F* f, const X* x, const float* weight, const float* bias,
                                         long long weight_stride, float* normal, float* y, float* inverse,
                                         const long long* seeds, u64 call, unsigned rows, unsigned width,
                                         unsigned threshold, float scale, float epsilon) {
  u64 row = blockIdx.x;
  unsigned client = row / rows, groups = (width + 3) / 4;
  u64 key = threshold > 0 ? key_of(seeds, client, call) : 0, first = (u64)(row % rows) * groups;
  float s[MOST], sum = 0;
  for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
    float part = load(f, row * width + j);
    if (threshold > 0) part *= kept(mask_hash(key, first + j / 4), j % 4, threshold, scale);
    s[i] = x == 0 ? part : part + load(x, row * width + j);
    sum += s[i];
  }
  float mean = block_sum(sum, 0).x / width, squares = 0;
  for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
    s[i] -= mean;
    squares += s[i] * s[i];
  }
  float factor = 1.0f / sqrtf(block_sum(squares, 0).x / width + epsilon);
  if (threadIdx.x == 0) inverse[row] = factor;
  for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
    float n = s[i] * factor;
    normal[row * width + j] = n;
    y[row * width + j] = n * weight[client * weight_stride + j] + bias[client * weight_stride + j];
  }
}
extern "C" __global__ void residual_norm_gradient(const float* dy, const float* normal, const float* inverse,
                                                  const float* weight, long long weight_stride, F* df, X* dx,
                                                  float* sums, const long long* seeds, u64 call, unsigned clients,
                                                  unsigned rows, unsigned width, unsigned block_rows,
                                                  unsigned threshold, float scale) {
  unsigned client = blockIdx.y, groups = (width + 3) / 4, begin = blockIdx.x * block_rows;
  unsigned end = begin + block_rows < rows ? begin + block_rows : rows;
  u64 key = threshold > 0 ? key_of(seeds, client, call) : 0;
  float dweight[MOST] = {}, dbias[MOST] = {}, g[MOST], n[MOST];
  for (unsigned r = begin; r < end; ++r) {
    u64 row = (u64)client * rows + r;
    float sum = 0, slope = 0;
    for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
      float d = dy[row * width + j];
      n[i] = normal[row * width + j];
      g[i] = d * weight[client * weight_stride + j];
      dweight[i] += d * n[i];
      dbias[i] += d;
      sum += g[i];
      slope += g[i] * n[i];
    }
    float2 totals = block_sum(sum, slope);
    float factor = inverse[row];
    for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
      float d = factor * (g[i] - totals.x / width - n[i] * totals.y / width);
      store(dx, row * width + j, d);
      if (threshold > 0) d *= kept(mask_hash(key, (u64)r * groups + j / 4), j % 4, threshold, scale);
      store(df, row * width + j, d);
    }
  }
  if (sums == 0) return;
  u64 at = ((u64)client * gridDim.x + blockIdx.x) * width, half = (u64)clients * gridDim.x * width;
  for (unsigned i = 0, j = threadIdx.x; j < width; ++i, j += blockDim.x) {
    sums[at + j] = dweight[i];
    sums[half + at + j] = dbias[i];
  }
}
)";

constexpr int kThreads = 256;
constexpr std::int64_t kMostWidth = 16 * kThreads;
constexpr std::int64_t kBlockRows = 16;

constexpr const char* kTypes[2] = {"float", "bf16"};
std::size_t type_of(at::ScalarType type) { return type == at::kBFloat16 ? 1 : 0; }

const GpuKernel& mask_kernel(at::ScalarType type, const char* name) {
  const auto make = [](std::size_t t, const char* of) {
    return GpuKernel(of, fmt::format("{}typedef {} T;\n{}", kPrelude, kTypes[t], kMasks));
  };
  static const GpuKernel hidden[2] = {make(0, "mask_hidden"), make(1, "mask_hidden")};
  static const GpuKernel weights[2] = {make(0, "mask_weights"), make(1, "mask_weights")};
  return (std::string_view(name) == "mask_hidden" ? hidden : weights)[type_of(type)];
}

const GpuKernel& norm_kernel(at::ScalarType f, at::ScalarType x, bool gradient) {
  const auto make = [](std::size_t tf, std::size_t tx, const char* name) {
    return GpuKernel(name, fmt::format("{}typedef {} F;\ntypedef {} X;\n{}", kPrelude, kTypes[tf], kTypes[tx], kNorm));
  };
  const auto all = [&](const char* name) {
    return std::array<GpuKernel, 4>{make(0, 0, name), make(0, 1, name), make(1, 0, name), make(1, 1, name)};
  };
  static const std::array<GpuKernel, 4> forward = all("residual_norm"), backward = all("residual_norm_gradient");
  return (gradient ? backward : forward)[type_of(f) * 2 + type_of(x)];
}

const GpuKernel& softmax_kernel(at::ScalarType type, bool gradient) {
  const auto make = [](std::size_t t, const char* name) {
    return GpuKernel(name, fmt::format("{}typedef {} T;\n{}", kPrelude, kTypes[t], kSoftmax));
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

GpuNorm gpu_residual_norm(const at::Tensor& f, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const Dropout::Site& site, double epsilon) {
  const at::Tensor part = f.contiguous(), rest = x.defined() ? x.contiguous() : at::Tensor();
  const std::int64_t all = f.size(0) * f.size(1);
  const auto options = f.options().dtype(at::kFloat);
  GpuNorm result{torch::empty(f.sizes(), options), torch::empty(f.sizes(), options), torch::empty({all}, options)};
  const std::int64_t stride = weight.dim() == 2 ? weight.stride(0) : 0;
  norm_kernel(f.scalar_type(), (x.defined() ? x : f).scalar_type(), false)
      .launch({all, kThreads}, part.data_ptr(), rest.defined() ? rest.data_ptr() : nullptr, weight.data_ptr<float>(),
              bias.data_ptr<float>(), stride, result.normal.data_ptr<float>(), result.y.data_ptr<float>(),
              result.inverse.data_ptr<float>(), seeds_of(site), site.call, static_cast<unsigned>(f.size(1)),
              static_cast<unsigned>(f.size(2)), static_cast<unsigned>(site.threshold), site.scale,
              static_cast<float>(epsilon));
  return result;
}

GpuNormGradient gpu_residual_norm_gradient(const at::Tensor& dy, const GpuNorm& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, bool want_weights, at::ScalarType type_f,
                                           at::ScalarType type_x) {
  const at::Tensor up = dy.to(at::kFloat).contiguous();
  const std::int64_t clients = dy.size(0), rows = dy.size(1), width = dy.size(2);
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  GpuNormGradient result{torch::empty(dy.sizes(), up.options().dtype(type_f)),
                         torch::empty(dy.sizes(), up.options().dtype(type_x)),
                         want_weights ? torch::empty({2, clients, blocks, width}, up.options()) : at::Tensor()};
  const std::int64_t stride = weight.dim() == 2 ? weight.stride(0) : 0;
  norm_kernel(type_f, type_x, true)
      .launch({blocks, kThreads, clients}, up.data_ptr<float>(), forward.normal.data_ptr<float>(),
              forward.inverse.data_ptr<float>(), weight.data_ptr<float>(), stride, result.df.data_ptr(),
              result.dx.data_ptr(), want_weights ? result.sums.data_ptr<float>() : nullptr, seeds_of(site), site.call,
              static_cast<unsigned>(clients), static_cast<unsigned>(rows), static_cast<unsigned>(width),
              static_cast<unsigned>(kBlockRows), static_cast<unsigned>(site.threshold), site.scale);
  return result;
}

}  // namespace chorus

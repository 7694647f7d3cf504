#include "application/models/ops/gpu_norm.h"

#include <fmt/format.h>

#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/gpu_source.h"
#include "core/base/error.h"

namespace chorus {
namespace {

// A warp takes a row, a lane every 32nd group of four neighbours; G is how many groups a lane has at most. Types: F of
// f, X of x, Y of the results.
constexpr const char* kNorm = R"(
__device__ inline float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
extern "C" __global__ void __launch_bounds__(256)
residual_norm(const F* f, const float* f_bias, long long f_bias_stride, const X* x, const float* weight,
              long long weight_stride, const float* bias, long long bias_stride, Y* normal, Y* y, float* inverse,
              const long long* seeds, u64 call, unsigned rows, unsigned width, unsigned total, unsigned threshold,
              float scale, float epsilon) {
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
    float others[4] = {}, added[4] = {};
    if (x != 0) load4(x, at + 4 * g, others);
    if (f_bias != 0) load4(f_bias, client * f_bias_stride + 4 * g, added);
    for (unsigned j = 0; j < 4; ++j) {
      s[i][j] += added[j];
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
  bias += client * bias_stride;
#pragma unroll
  for (unsigned i = 0; i < G; ++i) {
    unsigned g = lane + 32 * i;
    if (g >= groups) continue;
    float w[4], b[4];
    load4(weight, 4 * g, w);
    load4(bias, 4 * g, b);
    for (unsigned j = 0; j < 4; ++j) s[i][j] *= factor;
    store4(normal, at + 4 * g, s[i]);
    for (unsigned j = 0; j < 4; ++j) s[i][j] = s[i][j] * w[j] + b[j];
    store4(y, at + 4 * g, s[i]);
  }
}
// A row takes G warps, a thread four neighbours of all rows of its block, four rows at a time. sums [3, clients, blocks,
// width] of weight, bias and f's bias.
#define TOGETHER 4
// The sums over a warp of 8 numbers a lane: lane 4 i has that of number i.
__device__ inline float sum_of_each(float* v) {
  unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned count = 4, far = 16; count > 0; count /= 2, far /= 2) {
    bool upper = lane & far;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + count], far);
      v[i] = (upper ? v[i + count] : v[i]) + other;
    }
  }
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 2);
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}
extern "C" __global__ void __launch_bounds__(32 * G)
residual_norm_gradient(const Y* dy, const Y* normal, const float* inverse, const float* weight,
                       long long weight_stride, F* df, X* dx, float* sums, const long long* seeds, u64 call,
                       unsigned clients, unsigned rows, unsigned width, unsigned block_rows, unsigned threshold,
                       float scale) {
  __shared__ __align__(16) float parts[2][G][2 * TOGETHER];
  unsigned client = blockIdx.y, k = 4 * threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, turn = 0;
  unsigned begin = blockIdx.x * block_rows, end = begin + block_rows < rows ? begin + block_rows : rows;
  bool mine = k < width;
  u64 key = threshold > 0 ? key_of(seeds, client, call) : 0;
  float w[4] = {}, dweight[4] = {}, dbias[4] = {}, df_bias[4] = {};
  if (mine) load4(weight, client * weight_stride + k, w);
  for (unsigned first = begin; first < end; first += TOGETHER, turn ^= 1) {
    float d[TOGETHER][4] = {}, n[TOGETHER][4] = {}, part[2 * TOGETHER];
#pragma unroll
    for (unsigned i = 0; i < TOGETHER; ++i) {
      u64 at = ((u64)client * rows + first + i) * width + k;
      if (!mine || first + i >= end) continue;
      load4(dy, at, d[i]);
      load4(normal, at, n[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < TOGETHER; ++i) {
      part[2 * i] = part[2 * i + 1] = 0;
      for (unsigned j = 0; j < 4; ++j) {
        dweight[j] += d[i][j] * n[i][j];
        dbias[j] += d[i][j];
        d[i][j] *= w[j];
        part[2 * i] += d[i][j];
        part[2 * i + 1] += d[i][j] * n[i][j];
      }
    }
    float sum = sum_of_each(part);
    if (lane % 4 == 0) parts[turn][warp][lane / 4] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < TOGETHER; ++i) {
      if (!mine || first + i >= end) continue;
      float mean = 0, slope = 0;
#pragma unroll
      for (unsigned other = 0; other < G; ++other) {
        float2 both = *(const float2*)&parts[turn][other][2 * i];
        mean += both.x;
        slope += both.y;
      }
      mean /= width;
      slope /= width;
      u64 row = (u64)client * rows + first + i, at = row * width + k;
      float factor = inverse[row];
      for (unsigned j = 0; j < 4; ++j) d[i][j] = factor * (d[i][j] - mean - n[i][j] * slope);
      if (dx != 0) store4(dx, at, d[i]);
      u64 bits = threshold > 0 ? mask_hash(key, (u64)(first + i) * (width / 4) + threadIdx.x) : 0;
      for (unsigned j = 0; j < 4; ++j) {
        if (threshold > 0) d[i][j] *= kept(bits, j, threshold, scale);
        df_bias[j] += d[i][j];
      }
      if (df != 0) store4(df, at, d[i]);
    }
  }
  if (sums == 0 || !mine) return;
  u64 at = ((u64)client * gridDim.x + blockIdx.x) * width + k, third = (u64)clients * gridDim.x * width;
  store4(sums, at, dweight);
  store4(sums, third + at, dbias);
  store4(sums, 2 * third + at, df_bias);
}
)";

constexpr std::int64_t kNormRows = 8;  // of a block: a warp each
constexpr std::int64_t kWidestNorm = 2048;
constexpr std::int64_t kBlockRows = 32;  // of a block of the gradient

// G of a row's width, so that few are compiled.
std::size_t groups_for(std::int64_t width) {
  for (const std::size_t groups : {1, 2, 4, 6, 8, 16}) {
    if (width <= 128 * static_cast<std::int64_t>(groups)) return groups;
  }
  throw InternalError("a row too wide for a norm's kernel");
}

const GpuKernel& norm_kernel(const char* name, at::ScalarType f, at::ScalarType x, at::ScalarType y,
                             std::int64_t width) {
  return gpu_kernel_for(name,
                        fmt::format("#define G {}\ntypedef {} F;\ntypedef {} X;\ntypedef {} Y;\n", groups_for(width),
                                    gpu_type(f), gpu_type(x), gpu_type(y)),
                        kNorm);
}

}  // namespace

bool gpu_norm_can(const at::Tensor& f) { return gpu_rows_can(f) && f.size(-1) % 4 == 0 && f.size(-1) <= kWidestNorm; }

GpuNorm gpu_residual_norm(const GpuNormInput& input, at::ScalarType type) {
  const at::Tensor f = input.f.contiguous(), x = input.x.defined() ? input.x.contiguous() : at::Tensor();
  const std::int64_t all = f.size(0) * f.size(1), width = f.size(2);
  const auto options = f.options().dtype(type);
  GpuNorm result{torch::empty(f.sizes(), options), torch::empty(f.sizes(), options),
                 torch::empty({all}, f.options().dtype(at::kFloat))};
  const OfClient weight(input.weight), bias(input.bias), f_bias(input.f_bias);
  norm_kernel("residual_norm", f.scalar_type(), (x.defined() ? x : f).scalar_type(), type, width)
      .launch({(all + kNormRows - 1) / kNormRows, kGpuThreads}, f.data_ptr(), f_bias.data, f_bias.stride,
              x.defined() ? x.data_ptr() : nullptr, weight.data, weight.stride, bias.data, bias.stride,
              result.normal.data_ptr(), result.y.data_ptr(), result.inverse.data_ptr<float>(), seeds_of(input.site),
              input.site.call, static_cast<unsigned>(f.size(1)), static_cast<unsigned>(width),
              static_cast<unsigned>(all), static_cast<unsigned>(input.site.threshold), input.site.scale,
              static_cast<float>(input.epsilon));
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
      .launch({blocks, static_cast<int>(32 * groups_for(width)), clients}, up.data_ptr(), forward.normal.data_ptr(),
              forward.inverse.data_ptr<float>(), weights.data, weights.stride, wish.f ? result.df.data_ptr() : nullptr,
              wish.x && !same ? result.dx.data_ptr() : nullptr, wish.sums ? result.sums.data_ptr<float>() : nullptr,
              seeds_of(site), site.call, static_cast<unsigned>(clients), static_cast<unsigned>(rows),
              static_cast<unsigned>(width), static_cast<unsigned>(kBlockRows), static_cast<unsigned>(site.threshold),
              site.scale);
  return result;
}

}  // namespace chorus

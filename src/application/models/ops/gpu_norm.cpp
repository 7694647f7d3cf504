#include "application/models/ops/gpu_norm.h"

#include <fmt/format.h>

#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/gpu_source.h"
#include "core/error.h"

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
  check(weight.stride == bias.stride, "weight and bias of a norm train alike");
  norm_kernel("residual_norm", f.scalar_type(), (x.defined() ? x : f).scalar_type(), type, width)
      .launch({(all + kNormRows - 1) / kNormRows, kGpuThreads}, f.data_ptr(), f_bias.data, f_bias.stride,
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
      .launch({blocks, kGpuThreads, clients}, up.data_ptr(), forward.normal.data_ptr(),
              forward.inverse.data_ptr<float>(), weights.data, weights.stride, wish.f ? result.df.data_ptr() : nullptr,
              wish.x && !same ? result.dx.data_ptr() : nullptr, wish.sums ? result.sums.data_ptr<float>() : nullptr,
              seeds_of(site), site.call, static_cast<unsigned>(clients), static_cast<unsigned>(rows),
              static_cast<unsigned>(width), static_cast<unsigned>(kBlockRows), static_cast<unsigned>(site.threshold),
              site.scale);
  return result;
}

}  // namespace chorus

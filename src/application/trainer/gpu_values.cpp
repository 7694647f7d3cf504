#include "application/trainer/gpu_values.h"

#include <torch/types.h>

#include <algorithm>

#include "core/device/gpu_kernel.h"

namespace chorus {
namespace {

// Four neighbours a thread, read and written at once where they lie at multiples of four. The table begins and ends at
// such, and so do its rows; those that a client has may lie anywhere. A thread does them for all clients that have one
// start, which is read once.
constexpr const char* kSource = R"(
__device__ inline float4 load(const float* at) {
  if ((unsigned long long)at % 16 == 0) return *(const float4*)at;
  return make_float4(at[0], at[1], at[2], at[3]);
}
__device__ inline void store(float* at, float4 v) {
  if ((unsigned long long)at % 16 == 0) {
    *(float4*)at = v;
  } else {
    at[0] = v.x, at[1] = v.y, at[2] = v.z, at[3] = v.w;
  }
}
__device__ inline unsigned pair(float low, float high) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ inline bool faulty_number(float x) { return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u; }

extern "C" __global__ void __launch_bounds__(256)
begin_values(float* values, long long values_stride, unsigned short* halves, long long halves_stride,
             const float* start, long long start_stride, int clients, const long long* rows, long long used,
             long long begin, long long size, long long width, long long count) {
  const long long others = count - used * width, step = 4ll * gridDim.x * blockDim.x, first = blockIdx.y;
  start += first * start_stride;
  for (long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x); i < count; i += step) {
    if (i + 4 <= others) {
      const float4 v = load(start + (i < begin ? i : i + size));
      const uint2 half = make_uint2(pair(v.x, v.y), pair(v.z, v.w));
      for (long long c = first; c < first + clients; ++c) {
        store(values + c * values_stride + i, v);
        if (halves != 0) *(uint2*)(halves + c * halves_stride + i) = half;
      }
      continue;
    }
    for (long long c = first; c < first + clients; ++c) {
      for (long long j = i; j < i + 4 && j < count; ++j) {
        long long from = j < begin ? j : j + size;
        if (j >= others) {
          const unsigned at = (unsigned)(j - others);
          from = begin + rows[c * used + at / (unsigned)width] * width + at % (unsigned)width;
        }
        values[c * values_stride + j] = start[from];
        if (halves != 0) halves[c * halves_stride + j] = (unsigned short)pair(start[from], 0);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
changes(float* out, long long out_stride, const float* values, long long values_stride, const float* start,
        long long start_stride, int clients, const long long* rows, const long long* names, long long used,
        long long vocabulary, long long begin, long long size, long long width, long long count, int* faulty) {
  const long long others = count - size, step = 4ll * gridDim.x * blockDim.x, first = blockIdx.y;
  start += first * start_stride;
  for (long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x); i < count; i += step) {
    const bool whole = i + 4 <= count, word = i >= begin && i < begin + size;
    const unsigned row = word ? (unsigned)(i - begin) / (unsigned)width : 0;
    const float4 b = whole ? load(start + i) : make_float4(0, 0, 0, 0);
    for (long long c = first; c < first + clients; ++c) {
      long long from = i < begin ? i : i - size;
      if (word) {
        const long long name = names[c * vocabulary + row];
        if (rows[c * used + name] != row) {
          store(out + c * out_stride + i, make_float4(0, 0, 0, 0));
          continue;
        }
        from = others + name * width + (i - begin) % width;
      }
      const float* mine = values + c * values_stride + from;
      float* to = out + c * out_stride + i;
      bool bad = false;
      if (whole) {
        const float4 a = load(mine), d = make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
        bad = faulty_number(d.x) | faulty_number(d.y) | faulty_number(d.z) | faulty_number(d.w);
        store(to, d);
      } else {
        for (long long j = 0; i + j < count; ++j) {
          to[j] = mine[j] - start[i + j];
          bad |= faulty_number(to[j]);
        }
      }
      if (bad) faulty[c] = 1;
    }
  }
}
)";

std::int64_t apart(const at::Tensor& start) { return start.dim() == 1 ? 0 : start.stride(0); }

// How many clients have one start, or 1; and threads for all of them, a few groups of four each.
int sharing(const at::Tensor& start, std::int64_t clients) { return start.dim() == 1 ? static_cast<int>(clients) : 1; }
GpuKernel::Grid grid_for(std::int64_t count, std::int64_t clients, int together) {
  constexpr std::int64_t kThreads = 256, kOfThread = 16;
  return {std::max<std::int64_t>(1, (count + kThreads * kOfThread - 1) / (kThreads * kOfThread)), kThreads,
          clients / together};
}

const std::int64_t* numbers_of(const at::Tensor& places) {
  return places.defined() ? places.data_ptr<std::int64_t>() : nullptr;
}

std::int64_t width_of(const at::Tensor& places) { return places.defined() ? places.size(1) : 0; }

}  // namespace

void gpu_begin_values(const at::Tensor& values, const at::Tensor& halves, const at::Tensor& start,
                      const WordPlaces& words) {
  static const GpuKernel kernel("begin_values", kSource);
  const int together = sharing(start, values.size(0));
  kernel.launch(grid_for(values.size(1), values.size(0), together), values.data_ptr<float>(), values.stride(0),
                halves.defined() ? halves.data_ptr() : nullptr, halves.defined() ? halves.stride(0) : std::int64_t{0},
                start.data_ptr<float>(), apart(start), together, numbers_of(words.rows), width_of(words.rows),
                words.begin, words.size, words.width, values.size(1));
}

Changes gpu_changes(const at::Tensor& values, const at::Tensor& start, const WordPlaces& words) {
  static const GpuKernel kernel("changes", kSource);
  const std::int64_t clients = values.size(0), count = start.size(-1), stride = (count + 15) / 16 * 16;
  Changes result{torch::empty({clients, stride}, values.options()).narrow(1, 0, count),
                 torch::zeros({clients}, values.options().dtype(at::kInt))};
  const int together = sharing(start, clients);
  kernel.launch(grid_for(count, clients, together), result.numbers.data_ptr<float>(), stride, values.data_ptr<float>(),
                values.stride(0), start.data_ptr<float>(), apart(start), together, numbers_of(words.rows),
                numbers_of(words.names), width_of(words.rows), width_of(words.names), words.begin, words.size,
                words.width, count, result.faulty.data_ptr<std::int32_t>());
  return result;
}

}  // namespace chorus

#include "algorithm/federated/weighted_sum_args.h"
#include "core/device/kernel_prelude.cuh"

extern "C" __global__ void __launch_bounds__(256) weighted_sum(WeightedSumArgs a) {
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < a.count; i += step) {
    float v[8], total = 0;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) v[k] = a.terms[k] == 0 ? 0.0f : a.terms[k][i];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) total += a.weights[k] * v[k];
    a.out[i] = a.sum == 0 ? total : total + a.sum[i];
  }
}

#include "application/optim/adamw_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT of the gradients. A thread takes four neighbouring elements.

__device__ inline float step_of(float before, float g, float& m, float& v, float decay, float size, float root,
                                const AdamWArgs& a) {
  m = a.beta1 * m + a.gain1 * g;
  v = a.beta2 * v + a.gain2 * g * g;
  return before - decay * before - size * m / (sqrtf(v) * root + a.epsilon);
}

extern "C" __global__ void __launch_bounds__(256) adamw(AdamWArgs a) {
  const u32 c = blockIdx.y, clients = gridDim.y;
  float size = a.size, root = a.root, shrink = a.shrink;
  if (a.rates != 0) {
    size = a.rates[c];
    root = a.rates[clients + c];
    shrink = a.rates[2 * clients + c];
  }
  const float factor = a.scale == 0 ? 1.0f : a.scale[c];
  const float *before = a.before + c * a.before_stride, *mask = a.decay_mask;
  const ELEMENT* g = (const ELEMENT*)a.gradients + c * a.gradients_stride;
  float *w = a.values + c * a.values_stride, *m = a.first + c * a.moments_stride, *v = a.second + c * a.moments_stride;
  u16* shadow = a.shadow == 0 ? 0 : a.shadow + c * a.shadow_stride;
  const i64 step = (i64)gridDim.x * blockDim.x, start = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  for (i64 i = start; i < a.quads; i += step) {
    float x[4], d[4], p[4] = {}, q[4] = {};
    load4(before, 4 * i, x);
    load4(g, 4 * i, d);
    if (4 * i < a.known) {
      load4(m, 4 * i, p);
      load4(v, 4 * i, q);
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      const float decay = mask == 0 ? shrink : shrink * mask[4 * i + j];
      x[j] = step_of(x[j], d[j] * factor, p[j], q[j], decay, size, root, a);
    }
    store4(w, 4 * i, x);
    if (a.keep) {
      store4(m, 4 * i, p);
      store4(v, 4 * i, q);
    }
    if (shadow != 0) ((uint2*)shadow)[i] = make_uint2(pair(x[0], x[1]), pair(x[2], x[3]));
  }
  for (i64 i = 4 * a.quads + start; i < a.count; i += step) {
    const float decay = mask == 0 ? shrink : shrink * mask[i];
    float p = i < a.known ? m[i] : 0.0f, q = i < a.known ? v[i] : 0.0f;
    const float x = step_of(before[i], load(g, i) * factor, p, q, decay, size, root, a);
    w[i] = x;
    m[i] = p;
    v[i] = q;
    if (shadow != 0) shadow[i] = (u16)pair(x, 0);
  }
}

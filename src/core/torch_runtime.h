#pragma once

namespace chorus {

/// Sets LibTorch up, at the first call and at the first of each thread: one thread a core unless OMP_NUM_THREADS says
/// otherwise (LibTorch counts hyper-threads out), and its warnings go to our log. Params calls it, so nobody else has
/// to.
void prepare_torch();

}  // namespace chorus

#pragma once

namespace chorus {

/// Sets LibTorch up once, at the first call (thread-safe): one thread a core unless OMP_NUM_THREADS says otherwise
/// (LibTorch counts hyper-threads out), and its warnings go to our log. Params calls it, so nobody else has to.
void prepare_torch();

}  // namespace chorus

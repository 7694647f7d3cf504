#pragma once

namespace chorus::inline device {

/// Replaces LibTorch's CPU allocator for tensors of 4 MB and more. It uses huge pages where the system has them (100
/// million floats are 100,000 small pages: as many page faults, and TLB misses in matmuls), and keeps freed blocks for
/// the next round, whose tensors have the same lengths. Shorter tensors come from their thread's heap. Only the first
/// call has an effect.
void prepare_tensor_memory();

}  // namespace chorus::inline device

#pragma once

namespace chorus::inline device {

/// Gives LibTorch's tensors of this machine's memory, from 4 MB on, large pages, where the system has them (a hundred
/// million numbers are 100,000 small ones, each a fault, and a product of matrices spends its time on looking them up),
/// and keeps what they leave for the next ones: those of a round are as long as those of the last. Shorter tensors come
/// from a heap of their thread. Once for a process.
void prepare_tensor_memory();

}  // namespace chorus::inline device

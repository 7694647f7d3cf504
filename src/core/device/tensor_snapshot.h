#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace chorus::inline device {

/// The current values of a tensor, for another thread to read while the original changes. The copy stays on the
/// tensor's device: on a GPU it is queued behind the work launched so far and costs the caller microseconds. If the GPU
/// has no room for it, it is copied to host memory at once.
///
///     const TensorSnapshot snapshot(model);
///     model.add_(update);                    // does not change the snapshot
///     write(snapshot.on_host());             // in any thread; waits for the copy, not for later work
class TensorSnapshot {
 public:
  explicit TensorSnapshot(const at::Tensor& tensor);

  /// On the CPU, contiguous.
  at::Tensor on_host() const;

 private:
  struct Ready;
  at::Tensor copy_;
  std::shared_ptr<Ready> ready_;  // null: copy_ is on the CPU
};

}  // namespace chorus::inline device

#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace chorus::inline device {

/// Copies a tensor from a GPU to host memory asynchronously. The copy is queued behind the work launched so far, and
/// the caller continues. `wait` blocks until the copy has arrived, not until later work is done. A CPU tensor is
/// returned as is.
///
///     HostCopy answers(logits);     // logits of batch k
///     ...                           // launch batch k + 1
///     decode(answers.wait());
class HostCopy {
 public:
  HostCopy() = default;
  explicit HostCopy(const at::Tensor& tensor);

  at::Tensor wait() const;

 private:
  struct Arrival;
  at::Tensor here_;
  std::shared_ptr<Arrival> arrival_;  // null: already on the CPU
};

}  // namespace chorus::inline device

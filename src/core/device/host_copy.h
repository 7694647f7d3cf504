#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace chorus::inline device {

/// A tensor on its way from a GPU to host memory. The copy is queued behind the work requested so far and the caller
/// continues; `wait` blocks until this copy has arrived, not until later work is done. A CPU tensor is passed on as is.
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
  std::shared_ptr<Arrival> arrival_;  // null: it is here
};

}  // namespace chorus::inline device

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// Receives the gradient of a matmul weight as soon as it is computed: the clients' elements from `offset` on, [C,
/// ...], in bfloat16 if a GPU's matmuls are. It may update these values at once, because nothing reads them any more in
/// this step.
using GradientTaker = std::function<void(std::int64_t offset, const at::Tensor& gradient)>;

/// Which gradients a backward pass has written so far. Gradients of matmul weights (and of head tables) are not zeroed
/// before a pass: the first matmul overwrites, later ones accumulate, and `end` zeroes the rest.
///
///     params.writes().begin();
///     loss.backward();
///     params.writes().end();
///
/// Without `begin`, a backward pass accumulates. Shared with the autograd functions.
class GradientWrites : public c10::intrusive_ptr_target {
 public:
  /// For gradients [C, P] in this layout.
  GradientWrites(std::shared_ptr<const Layout> layout, at::Tensor gradients);

  /// Call before a backward pass that writes the gradients. Elements of a client from `used` on are not touched. A
  /// `taker` receives the gradients of matmul weights, which then do not go to the buffer, except for a weight that
  /// several matmuls read.
  void begin(std::int64_t used, GradientTaker taker = {});
  void begin() { begin(gradients_.size(1)); }
  void end();
  /// Zeroes everything; later backward passes accumulate.
  void zero();

  std::vector<std::uint8_t> written;  ///< by parameter; nonzero: written or taken
  std::vector<std::uint8_t> uses;     ///< by parameter: its matmuls in this pass, at most 2
  GradientTaker taker;

 private:
  std::shared_ptr<const Layout> layout_;
  at::Tensor gradients_;
};

}  // namespace chorus::inline tensor

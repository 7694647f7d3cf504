#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// Takes the gradient of a matmul's weight as soon as it is there: that of each client's elements from `offset` on,
/// [C, ...], bfloat16 where a GPU's matmuls are. It may change these values at once: nothing reads them any more.
using GradientTaker = std::function<void(std::int64_t offset, const at::Tensor& gradient)>;

/// Which gradients a backward pass has written so far. Gradients of matmul weights (and of head tables) are not cleared
/// before a pass: the first matmul overwrites, later ones accumulate, and `end` zeroes what none wrote.
///
///     params.writes().begin();
///     loss.backward();
///     params.writes().end();
///
/// Without `begin`, a backward pass adds to what is there. Shared with the functions of a backward pass.
class GradientWrites : public c10::intrusive_ptr_target {
 public:
  /// Of gradients [C, P] in this layout.
  GradientWrites(std::shared_ptr<const Layout> layout, at::Tensor gradients);

  /// Before a backward pass that writes the gradients. What lies beyond the first `used` elements of a client, which
  /// nobody adds to, is left alone. A `taker` gets the gradients of matmul weights instead of the buffer; a weight that
  /// several matmuls read is left to the buffer.
  void begin(std::int64_t used, GradientTaker taker = {});
  void begin() { begin(gradients_.size(1)); }
  void end();
  /// Zeroes everything; the next passes add.
  void zero();

  std::vector<std::uint8_t> written;  ///< by parameter; not 0: holds something, or was taken
  std::vector<std::uint8_t> uses;     ///< by parameter: matmuls of this pass, at most 2
  GradientTaker taker;

 private:
  std::shared_ptr<const Layout> layout_;
  at::Tensor gradients_;
};

}  // namespace chorus::inline tensor

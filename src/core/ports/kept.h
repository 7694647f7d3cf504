#pragma once

#include <cstddef>
#include <span>

namespace chorus {

/// Something a procedure keeps on its workbench between the asks of a session: a Learner, activations, predictions.
/// It holds one row per client of the workbench.
class Kept {
 public:
  virtual ~Kept() = default;
  /// Only the clients at these indices (ascending) remain.
  virtual void retain(std::span<const std::size_t> clients) = 0;
};

}  // namespace chorus

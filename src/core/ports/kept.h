#pragma once

#include <cstddef>
#include <span>

namespace chorus::inline ports {

/// Something a procedure keeps for its clients between two asks of one session (Workbench).
class Kept {
 public:
  virtual ~Kept() = default;
  /// Only the clients at these indices, in ascending order, remain.
  virtual void retain(std::span<const std::size_t> clients) = 0;
};

}  // namespace chorus::inline ports

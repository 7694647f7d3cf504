#include "core/device/second_order.h"

namespace chorus::inline device {

bool& SecondOrder::wanted() {
  thread_local bool on = false;
  return on;
}

}  // namespace chorus::inline device

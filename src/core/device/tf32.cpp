#include "core/device/tf32.h"

#include <ATen/Context.h>

namespace chorus::inline device {

bool tf32_matmuls() { return at::globalContext().allowTF32CuBLAS(); }

Tf32Matmuls::Tf32Matmuls(bool on) : before_(tf32_matmuls()) {
  if (on) at::globalContext().setAllowTF32CuBLAS(true);
}

Tf32Matmuls::~Tf32Matmuls() {
  if (tf32_matmuls() != before_) at::globalContext().setAllowTF32CuBLAS(before_);
}

}  // namespace chorus::inline device

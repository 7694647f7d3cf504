#include "core/device/tf32.h"

#include <ATen/Context.h>

namespace chorus::inline device {

Tf32Matmuls::Tf32Matmuls(bool on) : before_(at::globalContext().allowTF32CuBLAS()) {
  if (on) at::globalContext().setAllowTF32CuBLAS(true);
}

Tf32Matmuls::~Tf32Matmuls() {
  if (at::globalContext().allowTF32CuBLAS() != before_) at::globalContext().setAllowTF32CuBLAS(before_);
}

}  // namespace chorus::inline device

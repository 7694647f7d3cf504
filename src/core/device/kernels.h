#pragma once

namespace chorus {

/// Whether operators use their fast kernels, as they do unless told otherwise, or the plain LibTorch operators that the
/// kernels are tested against (federation.kernels). For the whole program.
bool fast_kernels();
void use_fast_kernels(bool on);

}  // namespace chorus

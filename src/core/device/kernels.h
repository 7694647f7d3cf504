#pragma once

namespace chorus::inline device {

/// Switches for the whole program. Set them before a run; operators read them on every call.

/// Whether operators use their fast implementations (default) or the LibTorch reference (federation.kernels).
bool fast_kernels();
void use_fast_kernels(bool on);

/// Whether a GPU adds gradients in a fixed order (default), so that the same seed gives the same bits, or with atomic
/// additions in any order (federation.deterministic). A CPU always uses a fixed order.
bool deterministic();
void use_deterministic(bool on);

}  // namespace chorus::inline device

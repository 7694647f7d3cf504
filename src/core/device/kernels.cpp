#include "core/device/kernels.h"

#include <atomic>

namespace chorus::inline device {
namespace {

std::atomic<bool> fast = true, fixed_order = true;

}  // namespace

bool fast_kernels() { return fast; }

void use_fast_kernels(bool on) { fast = on; }

bool deterministic() { return fixed_order; }

void use_deterministic(bool on) { fixed_order = on; }

}  // namespace chorus::inline device

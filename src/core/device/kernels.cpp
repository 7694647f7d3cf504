#include "core/device/kernels.h"

#include <atomic>

namespace chorus {
namespace {

std::atomic<bool> fast = true;

}  // namespace

bool fast_kernels() { return fast; }

void use_fast_kernels(bool on) { fast = on; }

}  // namespace chorus

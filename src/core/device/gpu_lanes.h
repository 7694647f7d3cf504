#pragma once

#include "core/device/gpu_streams.h"

namespace chorus::inline device {

using GpuLanes = GpuStreams;  ///< the former name, for files that still use it

}  // namespace chorus::inline device

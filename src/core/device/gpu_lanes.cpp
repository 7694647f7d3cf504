#include "core/device/gpu_lanes.h"

#include "core/base/error.h"

#ifdef CHORUS_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#endif

namespace chorus::inline device {

#ifdef CHORUS_HAS_CUDA

namespace {

struct Lanes {
  c10::cuda::CUDAStream main, side;
};

// Always the same of a device: LibTorch keeps memory for each stream.
Lanes lanes_of(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, Lanes> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  const Lanes lanes{c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device),
                    c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)};
  return known.emplace(device, lanes).first->second;
}

void wait(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& until) {
  at::cuda::CUDAEvent event;
  event.record(until);
  event.block(waiting);
}

}  // namespace

struct GpuLanes::Streams {
  explicit Streams(c10::DeviceIndex device)
      : lanes(lanes_of(device)), before(c10::cuda::getCurrentCUDAStream(device)), guard(lanes.main) {}
  Lanes lanes;
  c10::cuda::CUDAStream before;
  c10::cuda::CUDAStreamGuard guard;
};

GpuLanes::GpuLanes(at::Device device)
    : streams_(std::make_unique<Streams>(device.has_index() ? device.index() : c10::cuda::current_device())) {
  wait(streams_->lanes.main, streams_->before);
}

GpuLanes::~GpuLanes() {
  wait(streams_->before, streams_->lanes.side);
  wait(streams_->before, streams_->lanes.main);
}

void GpuLanes::beside(const std::function<void()>& work) const {
  wait(streams_->lanes.side, streams_->lanes.main);
  const c10::cuda::CUDAStreamGuard guard(streams_->lanes.side);
  work();
}

void GpuLanes::join() const { wait(streams_->lanes.main, streams_->lanes.side); }

std::shared_ptr<void> GpuLanes::enter() const {
  return std::make_shared<c10::cuda::CUDAStreamGuard>(streams_->lanes.main);
}

void GpuLanes::lend(const at::Tensor& tensor) const {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), streams_->lanes.side);
}

void GpuLanes::hand_over(const at::Tensor& tensor) const {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), streams_->before);
}

#else

struct GpuLanes::Streams {};

GpuLanes::GpuLanes(at::Device) { throw InternalError("this program was built without CUDA"); }
GpuLanes::~GpuLanes() = default;
void GpuLanes::beside(const std::function<void()>& work) const { work(); }
void GpuLanes::join() const {}
std::shared_ptr<void> GpuLanes::enter() const { return {}; }
void GpuLanes::lend(const at::Tensor&) const {}
void GpuLanes::hand_over(const at::Tensor&) const {}

#endif

}  // namespace chorus::inline device

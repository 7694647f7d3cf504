#include "core/device/gpu_streams.h"

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

struct StreamPair {
  c10::cuda::CUDAStream high, low;
};

// Always the same pair per device, because LibTorch caches memory per stream.
StreamPair streams_of(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, StreamPair> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  const StreamPair streams{c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device),
                           c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)};
  return known.emplace(device, streams).first->second;
}

void wait(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& until) {
  at::cuda::CUDAEvent event;
  event.record(until);
  event.block(waiting);
}

}  // namespace

struct GpuStreams::State {
  explicit State(c10::DeviceIndex device)
      : streams(streams_of(device)), before(c10::cuda::getCurrentCUDAStream(device)), guard(streams.high) {}
  StreamPair streams;
  c10::cuda::CUDAStream before;
  c10::cuda::CUDAStreamGuard guard;
};

GpuStreams::GpuStreams(at::Device device)
    : state_(std::make_unique<State>(device.has_index() ? device.index() : c10::cuda::current_device())) {
  wait(state_->streams.high, state_->before);
}

GpuStreams::~GpuStreams() {
  wait(state_->before, state_->streams.low);
  wait(state_->before, state_->streams.high);
}

void GpuStreams::beside(const std::function<void()>& work) const {
  wait(state_->streams.low, state_->streams.high);
  const c10::cuda::CUDAStreamGuard guard(state_->streams.low);
  work();
}

void GpuStreams::join() const { wait(state_->streams.high, state_->streams.low); }

std::shared_ptr<void> GpuStreams::enter() const {
  return std::make_shared<c10::cuda::CUDAStreamGuard>(state_->streams.high);
}

void GpuStreams::lend(const at::Tensor& tensor) const {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), state_->streams.low);
}

void GpuStreams::hand_over(const at::Tensor& tensor) const {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), state_->before);
}

#else

struct GpuStreams::State {};

GpuStreams::GpuStreams(at::Device) { throw InternalError("this program was built without CUDA"); }
GpuStreams::~GpuStreams() = default;
void GpuStreams::beside(const std::function<void()>& work) const { work(); }
void GpuStreams::join() const {}
std::shared_ptr<void> GpuStreams::enter() const { return {}; }
void GpuStreams::lend(const at::Tensor&) const {}
void GpuStreams::hand_over(const at::Tensor&) const {}

#endif

}  // namespace chorus::inline device

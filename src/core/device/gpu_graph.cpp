#include "core/device/gpu_graph.h"

#include "core/base/error.h"
#include "core/device/kernels.h"

#ifdef CHORUS_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>

#include "core/console/log.h"
#include "core/device/torch_runtime.h"
#endif

namespace chorus::inline device {

#ifdef CHORUS_HAS_CUDA

namespace memory = c10::cuda::CUDACachingAllocator;

struct GpuGraph::Memory::Pool {
  explicit Pool(c10::DeviceIndex index)
      : device(index), stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {
    // LibTorch numbers its own pools from 1 in both fields; these ids are ours.
    static std::atomic<c10::CaptureId_t> next{1ULL << 40};
    id = {next++, 0};
  }
  c10::DeviceIndex device;
  c10::cuda::CUDAStream stream;  // for capture only; nothing runs on it
  c10::MempoolId_t id;
  bool used = false;
};

GpuGraph::Memory::Memory(at::Device device)
    : pool_(std::make_unique<Pool>(device.has_index() ? device.index() : c10::cuda::current_device())) {}

GpuGraph::Memory::~Memory() {
  if (pool_->used) memory::releasePool(pool_->device, pool_->id);
}

struct GpuGraph::Recorded {
  ~Recorded() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  cudaGraphExec_t graph = nullptr;
};

GpuGraph::GpuGraph(std::shared_ptr<Memory> memory)
    : memory_(std::move(memory)), recorded_(std::make_unique<Recorded>()) {}

bool GpuGraph::works_on(at::Device device) { return device.is_cuda() && fast_kernels(); }

bool GpuGraph::recording() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

bool GpuGraph::record(const std::function<void()>& work) {
  check(recorded_->graph == nullptr, "a graph is recorded once");
  Memory::Pool& pool = *memory_->pool_;
  const c10::cuda::CUDAStreamGuard guard(pool.stream);
  const cudaStream_t stream = pool.stream.stream();
  std::exception_ptr error;
  std::string reason;
  memory::beginAllocateToPool(pool.device, pool.id, [stream](cudaStream_t other) { return other == stream; });
  // Each recording takes another reference to the pool. Release one, so that the pool is freed with its Memory.
  if (pool.used) memory::releasePool(pool.device, pool.id);
  pool.used = true;
  cudaGraph_t graph = nullptr;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
    try {
      work();
    } catch (const std::exception& trouble) {
      if (is_out_of_memory(trouble)) error = std::current_exception();
      reason = trouble.what();
    }
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess && reason.empty()) reason = "it waits for the GPU";
  }
  memory::endAllocateToPool(pool.device, pool.id);
  if (reason.empty() && graph != nullptr) cudaGraphInstantiateWithFlags(&recorded_->graph, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  (void)cudaGetLastError();  // clears the error, which the return value reports
  if (error) std::rethrow_exception(error);
  if (recorded_->graph == nullptr) Log("gpu").debug("a step cannot be recorded: {}", reason);
  return recorded_->graph != nullptr;
}

void GpuGraph::launch() const {
  check(recorded_->graph != nullptr, "nothing was recorded");
  const cudaError_t result = cudaGraphLaunch(recorded_->graph, c10::cuda::getCurrentCUDAStream().stream());
  if (result != cudaSuccess) {
    throw InternalError(std::string("launching recorded work: ") + cudaGetErrorString(result));
  }
}

#else

struct GpuGraph::Memory::Pool {};
struct GpuGraph::Recorded {};

GpuGraph::Memory::Memory(at::Device) {}
GpuGraph::Memory::~Memory() = default;

GpuGraph::GpuGraph(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

bool GpuGraph::works_on(at::Device) { return false; }
bool GpuGraph::recording() { return false; }
bool GpuGraph::record(const std::function<void()>&) { return false; }
void GpuGraph::launch() const { throw InternalError("this program was built without CUDA"); }

#endif

GpuGraph::~GpuGraph() = default;

}  // namespace chorus::inline device

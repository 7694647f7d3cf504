#include "core/device/torch_runtime.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>
#ifdef CHORUS_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/device/gpu_graph.h"
#include "core/device/tensor_memory.h"

namespace chorus::inline device {
namespace {

void report(const std::string& message) {
  // Gradients are views into one flat buffer on purpose (core/tensor/params.h).
  if (message.find("gradient layout contract") != std::string::npos) return;
  Log("torch").debug("{}", message);
}

#if TORCH_VERSION_MAJOR >= 2
namespace warnings = c10::WarningUtils;
class ToLog : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { report(warning.msg()); }
};
#else
namespace warnings = c10::Warning;
class ToLog : public c10::WarningHandler {
 public:
  void process(const c10::SourceLocation&, const std::string& message, bool) override { report(message); }
};
#endif

}  // namespace

void prepare_torch() {
  // LibTorch has one warning handler per thread.
  static ToLog handler;
  thread_local bool handled = false;
  if (!handled) warnings::set_warning_handler(&handler);
  handled = true;
  static std::once_flag done;
  std::call_once(done, [] {
    prepare_tensor_memory();
    const unsigned cores = std::thread::hardware_concurrency();
    if (std::getenv("OMP_NUM_THREADS") == nullptr && cores > 0) at::set_num_threads(static_cast<int>(cores));
  });
}

TorchThreads::TorchThreads(int count) : before_((prepare_torch(), at::get_num_threads())) {
  at::set_num_threads(count > 0 ? count : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U)));
}

TorchThreads::~TorchThreads() { at::set_num_threads(before_); }

at::Tensor sent_to(at::Device device, const at::Tensor& here) {
  if (!device.is_cuda() || here.is_cuda()) return here.to(device);
  check(!GpuGraph::recording(), "numbers of this machine's memory are not known when recorded work runs");
  return here.pin_memory().to(device, /*non_blocking=*/true);
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // Where memory is taken past LibTorch's allocator there is only text: huge pages (tensor_memory.cpp), CUDA itself
  // when other programs have filled the GPU, and cuBLAS.
  const std::string_view text = error.what();
  return std::ranges::any_of(
      std::array{"can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"},
      [&](const char* part) { return text.find(part) != std::string_view::npos; });
}

std::string first_line(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

double free_gpu_memory() {
#ifdef CHORUS_HAS_CUDA
  std::size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) == cudaSuccess) return static_cast<double>(free);
#endif
  return 0;
}

void release_unused_memory() {
#ifdef CHORUS_HAS_CUDA
  c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

}  // namespace chorus::inline device

#include "core/gpu_kernel.h"

#include <fmt/format.h>

#include "core/error.h"

#ifdef CHORUS_HAS_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/nvrtc_stub/ATenNVRTC.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#endif

namespace chorus {

#ifdef CHORUS_HAS_CUDA

struct GpuKernel::Compiled {
  std::mutex mutex;
  std::map<int, CUfunction> functions;  // one a device
};

namespace {

const at::cuda::NVRTC& nvrtc() { return at::globalContext().getNVRTC(); }

std::string assembly(const std::string& name, const std::string& source) {
  const cudaDeviceProp* device = at::cuda::getCurrentDeviceProperties();
  const std::string architecture = fmt::format("--gpu-architecture=compute_{}{}", device->major, device->minor);
  const std::vector<const char*> options{architecture.c_str(), "--std=c++17"};
  nvrtcProgram program = nullptr;
  nvrtc().nvrtcCreateProgram(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  const nvrtcResult result = nvrtc().nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  if (result != NVRTC_SUCCESS) {
    nvrtc().nvrtcGetProgramLogSize(program, &size);
    std::string log(size, ' ');
    nvrtc().nvrtcGetProgramLog(program, log.data());
    throw InternalError(fmt::format("the GPU kernel {} does not compile: {}", name, log));
  }
  nvrtc().nvrtcGetPTXSize(program, &size);
  std::string text(size, ' ');
  nvrtc().nvrtcGetPTX(program, text.data());
  nvrtc().nvrtcDestroyProgram(&program);
  return text;
}

void succeed(CUresult result, const std::string& what) {
  if (result != CUDA_SUCCESS) throw InternalError(fmt::format("{}: CUDA error {}", what, static_cast<int>(result)));
}

}  // namespace

GpuKernel::GpuKernel(std::string name, std::string source)
    : name_(std::move(name)), source_(std::move(source)), compiled_(std::make_unique<Compiled>()) {}

bool GpuKernel::works_on(const at::Tensor& tensor) { return tensor.is_cuda(); }

void GpuKernel::launch_with(const Grid& grid, void** arguments) const {
  if (grid.blocks == 0 || grid.rows == 0) return;
  thread_local const bool ready = cudaFree(nullptr) == cudaSuccess;  // a thread's first call makes its context
  check(ready, "CUDA has no context");
  const int device = c10::cuda::current_device();
  CUfunction function = nullptr;
  {
    const std::lock_guard lock(compiled_->mutex);
    CUfunction& known = compiled_->functions[device];
    if (known == nullptr) {
      CUmodule module = nullptr;
      succeed(nvrtc().cuModuleLoadData(&module, assembly(name_, source_).c_str()), "loading the kernel " + name_);
      succeed(nvrtc().cuModuleGetFunction(&known, module, name_.c_str()), "finding the kernel " + name_);
    }
    function = known;
  }
  succeed(nvrtc().cuLaunchKernel(function, static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows), 1,
                                 static_cast<unsigned>(grid.threads), 1, 1, 0,
                                 c10::cuda::getCurrentCUDAStream().stream(), arguments, nullptr),
          "launching the kernel " + name_);
}

#else

struct GpuKernel::Compiled {};

GpuKernel::GpuKernel(std::string name, std::string source) : name_(std::move(name)), source_(std::move(source)) {}

bool GpuKernel::works_on(const at::Tensor&) { return false; }

void GpuKernel::launch_with(const Grid&, void**) const { throw InternalError("this program was built without CUDA"); }

#endif

GpuKernel::~GpuKernel() = default;

}  // namespace chorus

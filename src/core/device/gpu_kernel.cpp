#include "core/device/gpu_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/device/kernels.h"

#ifdef CHORUS_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#endif

namespace chorus {

#ifdef CHORUS_HAS_CUDA

struct GpuKernel::Compiled {
  std::mutex mutex;
  std::map<int, void*> functions;  // one a device
};

namespace {

/// The compiler and the driver, from the library through which LibTorch itself reaches them, or where they are
/// installed. Results are 0 for success.
class Nvrtc {
 public:
  static const Nvrtc& get() {
    static const Nvrtc library;
    return library;
  }

  int (*create)(void** program, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*compile)(void* program, int count, const char* const* options);
  int (*log_size)(void* program, std::size_t*);
  int (*log)(void* program, char*);
  int (*assembly_size)(void* program, std::size_t*);
  int (*assembly)(void* program, char*);
  int (*destroy)(void** program);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*load)(void** module, const void* image);
  int (*find)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                unsigned threads_z, unsigned shared, void* stream, void** arguments, void** more);

 private:
  Nvrtc() {
    for (const char* name : {"libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libcuda.so.1"}) {
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) libraries_.push_back(library);
    }
    take(create, "nvrtcCreateProgram");
    take(compile, "nvrtcCompileProgram");
    take(log_size, "nvrtcGetProgramLogSize");
    take(log, "nvrtcGetProgramLog");
    take(assembly_size, "nvrtcGetPTXSize");
    take(assembly, "nvrtcGetPTX");
    take(destroy, "nvrtcDestroyProgram");
    take(device_attribute, "cuDeviceGetAttribute");
    take(load, "cuModuleLoadData");
    take(find, "cuModuleGetFunction");
    take(launch, "cuLaunchKernel");
  }

  template <typename Function>
  void take(Function& function, const char* name) const {
    for (void* library : libraries_) {
      if (void* found = dlsym(library, name)) {
        function = reinterpret_cast<Function>(found);
        return;
      }
    }
    throw InternalError(fmt::format("CUDA's {} is not found; is its runtime compiler (NVRTC) installed?", name));
  }

  std::vector<void*> libraries_;
};

void succeed(int result, const std::string& what) {
  if (result != 0) throw InternalError(fmt::format("{}: CUDA error {}", what, result));
}

// Calls of the driver need what a thread's first call of the runtime makes. Allowed while work is recorded, too.
bool make_context() {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  return cudaFree(nullptr) == cudaSuccess;
}

std::string assembly_of(const std::string& name, const std::string& source, int device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  const Nvrtc& nvrtc = Nvrtc::get();
  int major = 0, minor = 0;
  succeed(nvrtc.device_attribute(&major, kMajor, device), "asking for the GPU's kind");
  succeed(nvrtc.device_attribute(&minor, kMinor, device), "asking for the GPU's kind");
  const std::string architecture = fmt::format("--gpu-architecture=compute_{}{}", major, minor);
  const std::vector<const char*> options{architecture.c_str(), "--std=c++17"};
  void* program = nullptr;
  succeed(nvrtc.create(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr), "compiling " + name);
  const int result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  if (result != 0) {
    nvrtc.log_size(program, &size);
    std::string log(size, ' ');
    nvrtc.log(program, log.data());
    throw InternalError(fmt::format("the GPU kernel {} does not compile: {}", name, log));
  }
  nvrtc.assembly_size(program, &size);
  std::string text(size, ' ');
  nvrtc.assembly(program, text.data());
  nvrtc.destroy(&program);
  return text;
}

}  // namespace

GpuKernel::GpuKernel(std::string name, std::string source)
    : name_(std::move(name)),
      source_(std::move(source)),
      parameters_(parameters_of(name_, source_)),
      compiled_(std::make_unique<Compiled>()) {}

bool GpuKernel::works_on(const at::Tensor& tensor) { return tensor.is_cuda() && fast_kernels(); }

void GpuKernel::launch_with(const Grid& grid, void** arguments) const {
  if (grid.blocks == 0 || grid.rows == 0) return;
  thread_local const bool ready = make_context();
  check(ready, "CUDA has no context");
  const int device = c10::cuda::current_device();
  const Nvrtc& nvrtc = Nvrtc::get();
  void* function = nullptr;
  {
    const std::lock_guard lock(compiled_->mutex);
    void*& known = compiled_->functions[device];
    if (known == nullptr) {
      void* module = nullptr;
      succeed(nvrtc.load(&module, assembly_of(name_, source_, device).c_str()), "loading the kernel " + name_);
      succeed(nvrtc.find(&known, module, name_.c_str()), "finding the kernel " + name_);
    }
    function = known;
  }
  succeed(nvrtc.launch(function, static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows), 1,
                       static_cast<unsigned>(grid.threads), 1, 1, 0, c10::cuda::getCurrentCUDAStream().stream(),
                       arguments, nullptr),
          "launching the kernel " + name_);
}

#else

struct GpuKernel::Compiled {};

GpuKernel::GpuKernel(std::string name, std::string source)
    : name_(std::move(name)), source_(std::move(source)), parameters_(parameters_of(name_, source_)) {}

bool GpuKernel::works_on(const at::Tensor&) { return false; }

void GpuKernel::launch_with(const Grid&, void**) const { throw InternalError("this program was built without CUDA"); }

#endif

GpuKernel::~GpuKernel() = default;

void GpuKernel::check_count(std::size_t given) const {
  if (given == parameters_) return;
  throw InternalError(fmt::format("the kernel {} takes {} arguments, not {}", name_, parameters_, given));
}

std::size_t GpuKernel::parameters_of(const std::string& name, const std::string& source) {
  const std::size_t begin = source.find(name + "("), end = source.find(')', begin);
  check(begin != std::string::npos && end != std::string::npos, "the kernel " + name + " is not in its source");
  const auto text = [&](std::size_t at) { return source.begin() + static_cast<std::ptrdiff_t>(at); };
  return static_cast<std::size_t>(std::count(text(begin), text(end), ',')) + 1;
}

}  // namespace chorus

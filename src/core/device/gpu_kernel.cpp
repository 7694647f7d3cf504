#include "core/device/gpu_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/fingerprint.h"

#ifdef CHORUS_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#endif

namespace chorus::inline device {
namespace {

KernelStore& kernel_store() {
  static KernelStore store;
  return store;
}

std::vector<const AnyGpuKernel*>& registered_kernels() {
  static std::vector<const AnyGpuKernel*> kernels;
  return kernels;
}

}  // namespace

void set_kernel_store(KernelStore store) { kernel_store() = std::move(store); }

void KernelChoice::append_to(std::string& text) const {
  if (word_ != nullptr) {
    text += word_;
  } else {
    fmt::format_to(std::back_inserter(text), "{}", number_);
  }
}

KernelFamily::KernelFamily(const KernelSource& source, std::vector<KernelOption> options)
    : source_(source), options_(std::move(options)) {}

std::string KernelFamily::defines(const std::vector<std::string>& values) const {
  check(values.size() == options_.size(), fmt::format("{}: one value per option", source_.file));
  std::string result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& known = options_[i].values;
    if (std::find(known.begin(), known.end(), values[i]) == known.end()) {
      throw InternalError(fmt::format("{} is not compiled with {} = {}", source_.file, options_[i].name, values[i]));
    }
    result += fmt::format("#define {} {}\n", options_[i].name, values[i]);
  }
  return result;
}

std::vector<std::string> KernelFamily::variants() const {
  KernelValues all;
  for (const KernelOption& option : options_) all[option.name] = option.values;
  return variants(all);
}

std::vector<std::string> KernelFamily::variants(const KernelValues& wanted) const {
  std::vector<std::vector<std::string>> all{{}};
  for (const KernelOption& option : options_) {
    const auto found = wanted.find(option.name);
    std::vector<std::vector<std::string>> longer;
    for (const auto& before : all) {
      if (found == wanted.end()) break;
      for (const std::string& value : found->second) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    }
    all = std::move(longer);
  }
  std::vector<std::string> result;
  for (const auto& values : all) result.push_back(defines(values));
  return result;
}

std::string KernelFamily::cache_key(const std::string& defines, const std::string& compiler) const {
  return fingerprint(source_.text, fingerprint(defines, fingerprint(compiler))).hex();
}

AnyGpuKernel::~AnyGpuKernel() = default;

const std::vector<const AnyGpuKernel*>& AnyGpuKernel::all() { return registered_kernels(); }

#ifdef CHORUS_HAS_CUDA

namespace {

/// NVRTC and the driver, loaded through the library that LibTorch uses, or from where they are installed. A result of 0
/// is success.
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
  int (*code_size)(void* program, std::size_t*);
  int (*code)(void* program, char*);
  int (*version)(int* major, int* minor);
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
    take(code_size, "nvrtcGetCUBINSize");
    take(code, "nvrtcGetCUBIN");
    take(version, "nvrtcVersion");
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

constexpr const char* kStandard = "--std=c++20";

void succeed(int result, const std::string& what) {
  if (result != 0) throw InternalError(fmt::format("{}: CUDA error {}", what, result));
}

// The driver needs the context that a thread's first runtime call creates. Allowed during a stream capture.
bool make_context() {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  return cudaFree(nullptr) == cudaSuccess;
}

std::string architecture_of(int device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  const Nvrtc& nvrtc = Nvrtc::get();
  int major = 0, minor = 0;
  succeed(nvrtc.device_attribute(&major, kMajor, device), "reading the GPU's compute capability");
  succeed(nvrtc.device_attribute(&minor, kMinor, device), "reading the GPU's compute capability");
  return fmt::format("sm_{}{}", major, minor);
}

struct KernelModule {
  std::once_flag loaded;
  void* handle = nullptr;
};

// Only loading needs the context, which another thread may be creating while this one compiles.
int load_image(const std::string& image, void** module) {
  thread_local const bool ready = make_context();
  check(ready, "CUDA has no context");
  return Nvrtc::get().load(module, image.data());
}

void load_module(const KernelFamily& family, const std::string& defines, const std::string& architecture,
                 KernelModule& module) {
  int major = 0, minor = 0;
  succeed(Nvrtc::get().version(&major, &minor), "reading the version of NVRTC");
  const std::string key =
      family.cache_key(defines, fmt::format("{} {} nvrtc {}.{}", architecture, kStandard, major, minor));
  const KernelStore& store = kernel_store();
  if (store.load) {
    const std::optional<std::string> image = store.load(key);
    if (image && load_image(*image, &module.handle) == 0) return;
  }
  const std::string image = family.compile(defines, architecture);
  succeed(load_image(image, &module.handle), fmt::format("loading {}", family.source().file));
  if (store.save) store.save(key, image);
}

// The kernels of a family compiled with these options, loaded on the current device.
void* module_of(const KernelFamily& family, const std::string& defines, int device) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, KernelModule> modules;
  const std::string architecture = architecture_of(device);
  KernelModule* module = nullptr;
  {
    const std::lock_guard lock(mutex);
    module = &modules[{device, family.cache_key(defines, architecture)}];
  }
  std::call_once(module->loaded, [&] { load_module(family, defines, architecture, *module); });
  return module->handle;
}

}  // namespace

std::string KernelFamily::compile(const std::string& defines, const std::string& architecture) const {
  const Nvrtc& nvrtc = Nvrtc::get();
  const std::string text = defines + source_.text, target = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options{target.c_str(), kStandard};
  void* program = nullptr;
  succeed(nvrtc.create(&program, text.c_str(), source_.file, 0, nullptr, nullptr), "compiling a kernel");
  const int result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  if (result != 0) {
    nvrtc.log_size(program, &size);
    std::string log(size, ' ');
    nvrtc.log(program, log.data());
    nvrtc.destroy(&program);
    throw InternalError(fmt::format("{} does not compile: {}", source_.file, log));
  }
  const bool code = architecture.starts_with("sm_");
  (code ? nvrtc.code_size : nvrtc.assembly_size)(program, &size);
  std::string image(size, ' ');
  (code ? nvrtc.code : nvrtc.assembly)(program, image.data());
  nvrtc.destroy(&program);
  return image;
}

void KernelFamily::load(const std::string& defines, int device) const { module_of(*this, defines, device); }

struct AnyGpuKernel::Functions {
  std::shared_mutex mutex;
  std::unordered_map<std::string, void*> known;  // by device and options
};

AnyGpuKernel::AnyGpuKernel(const KernelFamily& family, const char* name, std::size_t argument_bytes)
    : family_(&family), name_(name), argument_bytes_(argument_bytes), functions_(std::make_unique<Functions>()) {
  registered_kernels().push_back(this);
}

void* AnyGpuKernel::function_for(int device, std::initializer_list<KernelChoice> choices) const {
  thread_local std::string key;  // keeps its memory between launches
  key.assign(1, static_cast<char>(device));
  for (const KernelChoice& choice : choices) {
    key += ' ';
    choice.append_to(key);
  }
  {
    const std::shared_lock lock(functions_->mutex);
    const auto found = functions_->known.find(key);
    if (found != functions_->known.end()) return found->second;
  }
  std::vector<std::string> values(choices.size());
  std::transform(choices.begin(), choices.end(), values.begin(), [](const KernelChoice& choice) {
    std::string text;
    choice.append_to(text);
    return text;
  });
  void* module = module_of(*family_, family_->defines(values), device);
  void* function = nullptr;
  succeed(Nvrtc::get().find(&function, module, name_), fmt::format("finding the kernel {}", name_));
  const std::lock_guard lock(functions_->mutex);
  functions_->known[key] = function;
  return function;
}

void AnyGpuKernel::launch_with(const Grid& grid, const void* arguments,
                               std::initializer_list<KernelChoice> choices) const {
  if (grid.blocks == 0 || grid.rows == 0) return;
  thread_local const bool ready = make_context();
  check(ready, "CUDA has no context");
  void* function = function_for(c10::cuda::current_device(), choices);
  void* parameters[] = {const_cast<void*>(arguments)};
  const int result = Nvrtc::get().launch(function, static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows),
                                         1, static_cast<unsigned>(grid.threads), 1, 1, 0,
                                         c10::cuda::getCurrentCUDAStream().stream(), parameters, nullptr);
  if (result != 0) throw InternalError(fmt::format("launching the kernel {}: CUDA error {}", name_, result));
}

#else

std::string KernelFamily::compile(const std::string&, const std::string&) const {
  throw InternalError("this program was built without CUDA");
}

void KernelFamily::load(const std::string&, int) const { throw InternalError("this program was built without CUDA"); }

struct AnyGpuKernel::Functions {};

AnyGpuKernel::AnyGpuKernel(const KernelFamily& family, const char* name, std::size_t argument_bytes)
    : family_(&family), name_(name), argument_bytes_(argument_bytes) {
  registered_kernels().push_back(this);
}

void AnyGpuKernel::launch_with(const Grid&, const void*, std::initializer_list<KernelChoice>) const {
  throw InternalError("this program was built without CUDA");
}

#endif

}  // namespace chorus::inline device

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace chorus::inline device {

/// The text of a .cu file with everything it includes, which the build embeds (cmake/kernels.cmake) as
/// `kernels::x` for x.cu. So building Chorus needs no CUDA compiler, and kernels are ordinary source files.
struct KernelSource {
  const char* file;  ///< relative to src/
  const char* text;
};

/// A macro of a .cu file and the values it is compiled with. A test compiles all of them without a GPU; a launch with
/// any other value is an error.
struct KernelOption {
  const char* name;
  std::vector<std::string> values;
};

/// Option values by option name: the kernel variants that a program is about to launch.
using KernelValues = std::map<std::string, std::vector<std::string>>;

/// Keeps compiled kernels between runs, under a key that covers source, options, architecture and compiler. Both
/// functions must be thread-safe; `load` returns what `save` stored, or nothing.
struct KernelStore {
  std::function<std::optional<std::string>(const std::string& key)> load;
  std::function<void(const std::string& key, std::string_view image)> save;
};
/// Call before the first launch. Without a store, every process compiles what it launches.
void set_kernel_store(KernelStore store);

/// An option value chosen for a launch: a word such as "float", or a number.
class KernelChoice {
 public:
  KernelChoice(const char* word) : word_(word) {}
  KernelChoice(std::int64_t number) : number_(number) {}
  void append_to(std::string& text) const;

 private:
  const char* word_ = nullptr;
  std::int64_t number_ = 0;
};

/// The kernels of one .cu file. NVRTC, which comes with LibTorch, compiles them on the first launch with given options
/// or earlier (gpu_warm_up.h). The result is cached in this process and in the kernel store.
class KernelFamily {
 public:
  KernelFamily(const KernelSource& source, std::vector<KernelOption> options = {});

  const KernelSource& source() const { return source_; }
  const std::vector<KernelOption>& options() const { return options_; }
  /// `#define` lines for every combination of options.
  std::vector<std::string> variants() const;
  /// Only combinations of these values; none if an option is missing.
  std::vector<std::string> variants(const KernelValues& values) const;
  /// `#define` lines for one combination; the values are in the order of the options.
  std::string defines(const std::vector<std::string>& values) const;
  /// PTX for an architecture like "compute_90", machine code for one like "sm_90". Needs a build with CUDA.
  std::string compile(const std::string& defines, const std::string& architecture) const;
  /// Key of a compiled source; `compiler` is everything else that affects the result.
  std::string cache_key(const std::string& defines, const std::string& compiler) const;
  /// Compiles and loads for this GPU, unless that is done. Variants can be loaded concurrently.
  void load(const std::string& defines, int device) const;

 private:
  KernelSource source_;
  std::vector<KernelOption> options_;
};

/// The part of GpuKernel<Args> that does not depend on Args.
class AnyGpuKernel {
 public:
  struct Grid {
    std::int64_t blocks = 1;
    int threads = 256;
    std::int64_t rows = 1;  ///< blockIdx.y
  };

  AnyGpuKernel(const AnyGpuKernel&) = delete;
  AnyGpuKernel& operator=(const AnyGpuKernel&) = delete;

  const char* name() const { return name_; }
  const KernelFamily& family() const { return *family_; }
  std::size_t argument_bytes() const { return argument_bytes_; }

  /// Every kernel of this program.
  static const std::vector<const AnyGpuKernel*>& all();

 protected:
  AnyGpuKernel(const KernelFamily& family, const char* name, std::size_t argument_bytes);
  ~AnyGpuKernel();

  void launch_with(const Grid& grid, const void* arguments, std::initializer_list<KernelChoice> choices) const;

 private:
  struct Functions;
  void* function_for(int device, std::initializer_list<KernelChoice> choices) const;

  const KernelFamily* family_;
  const char* name_;
  std::size_t argument_bytes_;
  std::unique_ptr<Functions> functions_;
};

/// One kernel: `extern "C" __global__ void name(Args)` in the .cu file of its family. Args is a struct in a header that
/// C++ and the .cu file both include, so a launch is type-checked. Kernels are constants at namespace scope:
///
///     const KernelFamily kNorm{kernels::norm_gpu, {{"ELEMENT", {"float", "bf16"}}}};
///     const GpuKernel<NormArgs> kForward{kNorm, "norm_forward"};
///     ...
///     kForward.launch({.blocks = 10}, {.x = x.data_ptr(), .rows = 7}, {"bf16"});   // on LibTorch's current stream
///
/// Thread-safe. A launch costs a few microseconds and can be recorded (gpu_graph.h).
template <typename Args>
class GpuKernel : public AnyGpuKernel {
  static_assert(std::is_trivially_copyable_v<Args> && std::is_standard_layout_v<Args>);

 public:
  GpuKernel(const KernelFamily& family, const char* name) : AnyGpuKernel(family, name, sizeof(Args)) {}

  void launch(const Grid& grid, const Args& arguments, std::initializer_list<KernelChoice> choices = {}) const {
    launch_with(grid, &arguments, choices);
  }
};

using GpuGrid = AnyGpuKernel::Grid;

}  // namespace chorus::inline device

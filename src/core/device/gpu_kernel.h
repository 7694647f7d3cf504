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

/// A macro of a .cu file and the values it is compiled with. Those listed are compiled by a test without a GPU; a
/// launch with any other is refused.
struct KernelOption {
  const char* name;
  std::vector<std::string> values;
};

/// Values of options by the option's name: which variants of kernels a program is about to launch.
using KernelValues = std::map<std::string, std::vector<std::string>>;

/// Where compiled kernels stay between two runs of the program, by a key that covers source, options, architecture and
/// compiler. Both functions are called by several threads; `load` returns what `save` got, or nothing.
struct KernelStore {
  std::function<std::optional<std::string>(const std::string& key)> load;
  std::function<void(const std::string& key, std::string_view image)> save;
};
/// Before the first launch; without a store every process compiles what it launches.
void set_kernel_store(KernelStore store);

/// A value chosen for a launch: a word such as "float", or a number.
class KernelChoice {
 public:
  KernelChoice(const char* word) : word_(word) {}
  KernelChoice(std::int64_t number) : number_(number) {}
  void append_to(std::string& text) const;

 private:
  const char* word_ = nullptr;
  std::int64_t number_ = 0;
};

/// The kernels of one .cu file, compiled when one of them is first launched with given options, or before
/// (gpu_warm_up.h), by the compiler that LibTorch brings along (NVRTC). The result is kept under a hash of source,
/// options, architecture and compiler, in this process and in the kernel store.
class KernelFamily {
 public:
  KernelFamily(const KernelSource& source, std::vector<KernelOption> options = {});

  const KernelSource& source() const { return source_; }
  const std::vector<KernelOption>& options() const { return options_; }
  /// `#define` lines for every combination of options.
  std::vector<std::string> variants() const;
  /// Those made of these values only; none when an option is not among them.
  std::vector<std::string> variants(const KernelValues& values) const;
  /// Those of one combination; its values are in the order of the options.
  std::string defines(const std::vector<std::string>& values) const;
  /// PTX for an architecture like "compute_90", machine code for one like "sm_90". Needs a build with CUDA.
  std::string compile(const std::string& defines, const std::string& architecture) const;
  /// What a compiled source is kept under; `compiler` is everything else that decides on the result.
  std::string cache_key(const std::string& defines, const std::string& compiler) const;
  /// Compiles for this GPU and loads, unless that was done before. Different variants can be loaded side by side.
  void load(const std::string& defines, int device) const;

 private:
  KernelSource source_;
  std::vector<KernelOption> options_;
};

/// What GpuKernel<Args> is of every Args.
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
/// Thread-safe. A launch costs a few microseconds; it can be recorded (gpu_graph.h).
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

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace chorus {

/// A kernel for a GPU, from source text that is compiled when it is first launched, by the compiler that LibTorch
/// brings along (NVRTC). So building Chorus needs no CUDA compiler, and a kernel stands in the source file of the
/// operator that it speeds up.
///
///     const GpuKernel kDouble{"twice", R"(extern "C" __global__ void twice(float* x, long long n) {...})"};
///     kDouble.launch({.blocks = 10, .threads = 256}, x.data_ptr<float>(), n);
///
/// A pointer or a number of 4 or 8 bytes is passed as it is: its type must be the parameter's. Thread-safe.
class GpuKernel {
 public:
  GpuKernel(std::string name, std::string source);
  ~GpuKernel();

  /// Whether kernels are to be used on this tensor: it lies on a GPU, this program was built with CUDA, and they are
  /// wanted (kernels.h).
  static bool works_on(const at::Tensor& tensor);

  struct Grid {
    std::int64_t blocks = 1;
    int threads = 256;
    std::int64_t rows = 1;  ///< blockIdx.y
  };
  /// On LibTorch's current stream.
  template <typename... Arguments>
  void launch(const Grid& grid, Arguments... arguments) const {
    void* places[] = {static_cast<void*>(&arguments)...};
    check_count(sizeof...(arguments));
    launch_with(grid, places);
  }

 private:
  // CUDA would read beyond the arguments.
  void check_count(std::size_t given) const;
  static std::size_t parameters_of(const std::string& name, const std::string& source);
  void launch_with(const Grid& grid, void** arguments) const;

  struct Compiled;
  std::string name_, source_;
  std::size_t parameters_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace chorus

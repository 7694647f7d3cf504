#pragma once

namespace chorus::inline device {

/// While it lives, float32 matmuls on a GPU round their operands to TF32 (10 bits of mantissa, float32 sums), which
/// tensor cores multiply several times as fast. The destructor restores the setting, which is LibTorch's and global to
/// the process. With `on` false nothing changes.
///
///     const Tf32Matmuls tf32(config.precision == Precision::kTf32 && device.is_cuda());
class Tf32Matmuls {
 public:
  explicit Tf32Matmuls(bool on);
  Tf32Matmuls(const Tf32Matmuls&) = delete;
  Tf32Matmuls& operator=(const Tf32Matmuls&) = delete;
  ~Tf32Matmuls();

 private:
  bool before_;
};

/// Whether float32 matmuls on a GPU use TF32 now.
bool tf32_matmuls();

}  // namespace chorus::inline device

#pragma once

namespace chorus::inline device {

/// While it lives, float32 matmuls of a GPU round their factors to TF32 (10 bits of mantissa, float32 sums), which
/// tensor cores multiply several times as fast; at the end the setting is what it was. The setting is LibTorch's and
/// holds for the whole process. With `on` false nothing changes.
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

/// Whether float32 matmuls of a GPU are in TF32 now.
bool tf32_matmuls();

}  // namespace chorus::inline device

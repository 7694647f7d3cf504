#include "algorithm/privacy/fourier.h"

#include <ATen/ATen.h>

#include <cstdint>

namespace chorus::inline privacy {

std::vector<std::complex<double>> fourier(std::span<const double> values) {
  const at::Tensor x =
      at::from_blob(const_cast<double*>(values.data()), {static_cast<std::int64_t>(values.size())}, at::kDouble);
  const at::Tensor y = at::fft_rfft(x).contiguous();
  const auto* data = reinterpret_cast<const std::complex<double>*>(y.data_ptr<c10::complex<double>>());
  return {data, data + y.numel()};
}

std::vector<double> inverse_fourier(std::span<const std::complex<double>> coefficients, std::size_t size) {
  const at::Tensor x = at::from_blob(const_cast<std::complex<double>*>(coefficients.data()),
                                     {static_cast<std::int64_t>(coefficients.size())}, at::kComplexDouble);
  const at::Tensor y = at::fft_irfft(x, static_cast<std::int64_t>(size)).contiguous();
  return {y.data_ptr<double>(), y.data_ptr<double>() + y.numel()};
}

}  // namespace chorus::inline privacy

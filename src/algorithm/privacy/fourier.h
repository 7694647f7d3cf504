#pragma once

#include <complex>
#include <span>
#include <vector>

namespace chorus::inline privacy {

/// The discrete Fourier transform of real values: size/2 + 1 coefficients (LibTorch's, in double precision).
std::vector<std::complex<double>> fourier(std::span<const double> values);
/// Its inverse, to `size` values.
std::vector<double> inverse_fourier(std::span<const std::complex<double>> coefficients, std::size_t size);

}  // namespace chorus::inline privacy

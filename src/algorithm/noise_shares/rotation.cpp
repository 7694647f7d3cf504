#include "algorithm/noise_shares/rotation.h"

#include <bit>
#include <cmath>

#include "core/base/error.h"

namespace chorus::inline noise_shares {
namespace {

// The fast Walsh-Hadamard transform, orthonormal and its own inverse.
void hadamard(std::span<double> values) {
  const std::size_t size = values.size();
  for (std::size_t half = 1; half < size; half *= 2) {
    for (std::size_t begin = 0; begin < size; begin += 2 * half) {
      for (std::size_t i = begin; i < begin + half; ++i) {
        const double a = values[i], b = values[i + half];
        values[i] = a + b;
        values[i + half] = a - b;
      }
    }
  }
  const double factor = 1 / std::sqrt(static_cast<double>(size));
  for (double& value : values) value *= factor;
}

}  // namespace

Rotation::Rotation(std::size_t size, const StreamKey& key) : size_(size), block_(std::bit_floor(size)), key_(key) {
  check(size > 0, "an empty vector cannot be rotated");
}

void Rotation::flip(std::span<double> values, std::uint64_t pass) const {
  StreamKey key = key_;
  key.step = pass;
  RandomStream stream(key);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 32 == 0) bits = stream.next_u32();
    if ((bits >> (i % 32) & 1) != 0) values[i] = -values[i];
  }
}

void Rotation::forward(std::span<double> values) const {
  check(values.size() == size_, "a vector of another size");
  flip(values, 0);
  hadamard(values.first(block_));
  if (block_ == size_) return;
  flip(values, 1);
  hadamard(values.last(block_));
}

void Rotation::backward(std::span<double> values) const {
  check(values.size() == size_, "a vector of another size");
  if (block_ != size_) {
    hadamard(values.last(block_));
    flip(values, 1);
  }
  hadamard(values.first(block_));
  flip(values, 0);
}

}  // namespace chorus::inline noise_shares

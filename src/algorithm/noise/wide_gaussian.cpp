#include "algorithm/noise/wide_gaussian.h"

#include <array>
#include <cmath>

namespace chorus::inline noise {
namespace {

using Wide = SecretStream::Wide;

constexpr std::uint64_t kStep = kWideDeviation / 8;
constexpr std::size_t kSteps = 128;  // 16 deviations

// ends[k]: 2^128 times the probability of one of the steps 0 to k; the last one is everything.
std::array<Wide, kSteps> step_ends() {
  std::array<long double, kSteps> weights{};
  long double total = 0;
  for (std::size_t k = kSteps; k-- > 0;) {
    const long double edge = static_cast<long double>(k) / 8;
    weights[k] = std::exp(-edge * edge / 2);
    total += weights[k];
  }
  std::array<Wide, kSteps> ends{};
  Wide sum = 0;
  for (std::size_t k = 0; k < kSteps; ++k) {
    // In two halves: a long double has 64 bits, wherever they are.
    const long double share = weights[k] / total * 0x1.0p64L;
    const auto high = static_cast<std::uint64_t>(share);
    const auto low = static_cast<std::uint64_t>((share - static_cast<long double>(high)) * 0x1.0p63L);
    sum += (static_cast<Wide>(high) << 64) + (static_cast<Wide>(low) << 1);
    ends[k] = sum;
  }
  ends.back() = ~Wide{0};
  return ends;
}

std::size_t draw_step(SecretStream& stream, const std::array<Wide, kSteps>& ends) {
  const std::uint64_t high = stream.next_u64();
  std::size_t k = 0;
  while (static_cast<std::uint64_t>(ends[k] >> 64) < high) ++k;
  // Only where the first 64 bits do not decide.
  if (static_cast<std::uint64_t>(ends[k] >> 64) == high) {
    const Wide whole = (static_cast<Wide>(high) << 64) | stream.next_u64();
    while (ends[k] < whole) ++k;
  }
  return k;
}

std::int64_t draw(SecretStream& stream, const std::array<Wide, kSteps>& ends) {
  for (;;) {
    const std::size_t k = draw_step(stream, ends);
    // kStep is a power of two: the low bits are uniform, and the highest is the sign.
    const std::uint64_t bits = stream.next_u64();
    const std::uint64_t inside = bits & (kStep - 1), x = k * kStep + inside;
    const bool negative = bits >> 63 != 0;
    if (x == 0 && negative) continue;  // else 0 would come twice as often
    // x^2 - edge^2 = inside (2 edge + inside), exactly; below 2^53
    const auto above = static_cast<double>(inside * (2 * k * kStep + inside));
    const double accepted = std::exp(-above / (2.0 * static_cast<double>(kWideDeviation * kWideDeviation)));
    if (accepted < 1 && static_cast<double>(stream.next_u64() >> 11) * 0x1.0p-53 >= accepted) continue;
    return negative ? -static_cast<std::int64_t>(x) : static_cast<std::int64_t>(x);
  }
}

}  // namespace

void wide_gaussian(SecretStream& stream, std::span<std::int64_t> out) {
  static const std::array<Wide, kSteps> ends = step_ends();
  for (std::int64_t& value : out) value = draw(stream, ends);
}

}  // namespace chorus::inline noise

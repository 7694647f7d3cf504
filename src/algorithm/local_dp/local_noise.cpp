#include "algorithm/local_dp/local_noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithm/noise/integer_noise.h"
#include "algorithm/noise/wide_gaussian.h"

namespace chorus::inline local_dp {
namespace {

constexpr double kMargin = 1 - 1e-9;  // rounding errors must not exceed the bound
constexpr std::uint64_t kLaplaceScale = std::uint64_t{1} << 24;

// The values as integers, `units` per clip, with a norm of at most `units`; rounded towards zero, so it cannot grow.
// Values that are not finite have no norm: they become noise alone.
std::vector<std::int64_t> clipped(std::span<const float> values, double norm, double clip, double units) {
  if (!std::isfinite(norm)) return std::vector<std::int64_t>(values.size(), 0);
  const double factor = kMargin * units / std::max(norm, clip);
  std::vector<std::int64_t> result;
  result.reserve(values.size());
  for (const float value : values) result.push_back(static_cast<std::int64_t>(value * factor));
  return result;
}

Numbers as_floats(std::span<const std::int64_t> whole, double unit) {
  Numbers result(whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) result[i] = static_cast<float>(static_cast<double>(whole[i]) * unit);
  return result;
}

}  // namespace

void LocalGaussianConfig::describe(ConfigVisitor& v) {
  v.field("clip", clip, "L2 norm that a client's tensor is clipped to").above(0).at_most(1e6);
  v.field("noise", noise, "standard deviation of the noise / clip").at_least(1e-2).at_most(1e4);
}

void LocalLaplaceConfig::describe(ConfigVisitor& v) {
  v.field("clip", clip, "L1 norm that a client's tensor is clipped to").above(0).at_most(1e6);
  v.field("noise", noise, "scale of the noise / clip").at_least(1e-2).at_most(1e4);
}

Numbers LocalGaussian::transform(std::span<const float> values, const FilterContext&) const {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double units = static_cast<double>(kWideDeviation) / config_.noise;
  std::vector<std::int64_t> whole = clipped(values, std::sqrt(squares), config_.clip, units);
  std::vector<std::int64_t> noise(whole.size());
  SecretStream stream;
  wide_gaussian(stream, noise);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += noise[i];
  return as_floats(whole, config_.clip / units);
}

Numbers LocalLaplace::transform(std::span<const float> values, const FilterContext&) const {
  double norm = 0;
  for (const float value : values) norm += std::abs(static_cast<double>(value));
  const double units = static_cast<double>(kLaplaceScale) / config_.noise;
  std::vector<std::int64_t> whole = clipped(values, norm, config_.clip, units);
  SecretStream stream;
  for (std::int64_t& value : whole) value += discrete_laplace(stream, kLaplaceScale);
  return as_floats(whole, config_.clip / units);
}

namespace {

const Registration<Filters, LocalGaussianConfig> kRegisteredLocalGaussian{
    "local_gaussian", "clip and add Gaussian noise on the client: local differential privacy",
    [](const LocalGaussianConfig& config) { return std::make_unique<LocalGaussian>(config); }};
const Registration<Filters, LocalLaplaceConfig> kRegisteredLocalLaplace{
    "local_laplace", "clip and add Laplace noise on the client: local differential privacy",
    [](const LocalLaplaceConfig& config) { return std::make_unique<LocalLaplace>(config); }};

}  // namespace
}  // namespace chorus::inline local_dp

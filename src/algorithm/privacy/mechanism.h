#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline privacy {

/// Which data sets are neighbours. A user (or an example) is one record; its contribution has norm at most 1.
enum class Adjacency {
  kAddRemove,  ///< one record more or less: a sum moves by at most 1
  kReplace     ///< one record has another value: a sum moves by at most 2
};

enum class MechanismKind {
  kGaussian,            ///< noise: standard deviation / L2 sensitivity
  kLaplace,             ///< noise: scale / L1 sensitivity
  kDiscreteGaussian,    ///< noise on the integers, sensitivity 1: sigma (Canonne, Kamath and Steinke 2020)
  kDiscreteLaplace,     ///< noise on the integers, sensitivity 1: scale
  kSkellam,             ///< noise: standard deviation / L2 sensitivity, in units of the integer grid (`sensitivity`)
  kRandomizedResponse,  ///< noise: the probability that the answer is uniform over `buckets`
  kConcentrated,        ///< whatever is proven to be 1 / (2 noise^2)-zCDP (Bun and Steinke 2016)
};

/// A mechanism that is run `steps` times on the same records. `noise` is relative to what one record can change.
///
///     const Mechanism step{.kind = MechanismKind::kGaussian, .noise = 0.7, .sampling_rate = 0.01, .steps = 120};
struct Mechanism {
  MechanismKind kind = MechanismKind::kGaussian;
  double noise = 0;
  double sampling_rate = 1;  ///< each record takes part with this probability, independently (Poisson)
  std::int64_t steps = 1;
  std::int64_t buckets = 2;   ///< possible answers of a randomized response
  double sensitivity = 1;     ///< Skellam: the L2 norm of an integer contribution
  double l1_sensitivity = 1;  ///< Skellam: its L1 norm
  std::int64_t group = 1;     ///< records that are protected together (group privacy)

  bool operator==(const Mechanism&) const = default;
};

/// ConfigError for invalid values, and for those for which no accountant here is proven.
void validate(const Mechanism& mechanism, Adjacency adjacency);

/// The adjacency that the mechanism is usually stated for: replace for a randomized response, else add or remove.
Adjacency usual_adjacency(MechanismKind kind);

std::string_view name_of(MechanismKind kind);
MechanismKind mechanism_named(std::string_view name);  ///< ConfigError with the known names
std::string_view name_of(Adjacency adjacency);
Adjacency adjacency_named(std::string_view name);

/// Whether nothing is released: no steps, or a sampling rate of 0.
bool is_nothing(const Mechanism& mechanism);

}  // namespace chorus::inline privacy

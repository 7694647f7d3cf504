#include "algorithm/privacy/mechanism.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace chorus::inline privacy {
namespace {

constexpr std::array<std::pair<std::string_view, MechanismKind>, 7> kKinds{{
    {"gaussian", MechanismKind::kGaussian},
    {"laplace", MechanismKind::kLaplace},
    {"discrete_gaussian", MechanismKind::kDiscreteGaussian},
    {"discrete_laplace", MechanismKind::kDiscreteLaplace},
    {"skellam", MechanismKind::kSkellam},
    {"randomized_response", MechanismKind::kRandomizedResponse},
    {"zcdp", MechanismKind::kConcentrated},
}};

constexpr std::array<std::pair<std::string_view, Adjacency>, 2> kAdjacencies{{
    {"add_remove", Adjacency::kAddRemove},
    {"replace", Adjacency::kReplace},
}};

template <typename Table>
auto value_named(const Table& table, std::string_view what, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, value] : table) {
    if (known == name) return value;
    names.emplace_back(known);
  }
  const std::string near = did_you_mean(std::string(name.substr(0, 60)), names);
  throw ConfigError(fmt::format("unknown {} '{}'{}", what, name.substr(0, 60),
                                near.empty() ? fmt::format("; use {}", fmt::join(names, ", ")) : near));
}

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [name, known] : table) {
    if (known == value) return name;
  }
  throw InternalError("a value without a name");
}

void require(bool ok, const std::string& message) {
  if (!ok) throw ConfigError(message);
}

}  // namespace

std::string_view name_of(MechanismKind kind) { return name_in(kKinds, kind); }
std::string_view name_of(Adjacency adjacency) { return name_in(kAdjacencies, adjacency); }
MechanismKind mechanism_named(std::string_view name) { return value_named(kKinds, "mechanism", name); }
Adjacency adjacency_named(std::string_view name) { return value_named(kAdjacencies, "adjacency", name); }

Adjacency usual_adjacency(MechanismKind kind) {
  return kind == MechanismKind::kRandomizedResponse ? Adjacency::kReplace : Adjacency::kAddRemove;
}

bool is_nothing(const Mechanism& mechanism) { return mechanism.steps == 0 || mechanism.sampling_rate <= 0; }

void validate(const Mechanism& m, Adjacency adjacency) {
  const std::string_view name = name_of(m.kind);
  require(m.sampling_rate >= 0 && m.sampling_rate <= 1,
          fmt::format("the sampling rate is {}; it is a probability between 0 and 1", m.sampling_rate));
  require(m.steps >= 0 && m.steps <= 10'000'000,
          fmt::format("the number of steps is {}; it must be between 0 and 1e7", m.steps));
  require(m.group >= 1 && m.group <= 1000, fmt::format("the group has {} records; give 1 to 1000", m.group));
  require(m.noise > 0 && std::isfinite(m.noise),
          m.noise == 0 ? "the noise is 0, so epsilon is infinite and nothing is protected; give a positive noise"
                       : fmt::format("the noise is {}; it must be positive and finite", m.noise));
  const bool integers = m.kind == MechanismKind::kDiscreteGaussian || m.kind == MechanismKind::kDiscreteLaplace;
  require(m.noise >= 1e-3 || m.kind == MechanismKind::kRandomizedResponse,
          fmt::format("the noise is {}; below 0.001 of the sensitivity nothing is protected; give more", m.noise));
  require(!integers || m.noise <= 1e5,
          fmt::format("the noise of {} is {}; above 1e5 use its continuous counterpart", name, m.noise));
  require(m.group == 1 || m.kind == MechanismKind::kGaussian,
          fmt::format("group privacy is not implemented for {}; use gaussian, or a group of 1", name));
  require(m.group == 1 || m.sampling_rate >= 1 || adjacency == Adjacency::kAddRemove,
          "group privacy with sampling is proven for adjacency add_remove only; use it, or a sampling rate of 1");
  if (m.kind == MechanismKind::kRandomizedResponse) {
    require(m.noise <= 1, fmt::format("the noise of a randomized response is {}; it is a probability", m.noise));
    require(m.buckets >= 2, fmt::format("a randomized response has {} buckets; give at least 2", m.buckets));
    require(m.sampling_rate >= 1, "a randomized response is not sampled; use a sampling rate of 1");
    require(adjacency == Adjacency::kReplace,
            "a randomized response protects the value of an answer; use adjacency replace");
  }
  if (m.kind == MechanismKind::kSkellam) {
    require(m.sensitivity > 0 && m.l1_sensitivity >= m.sensitivity && std::isfinite(m.l1_sensitivity),
            fmt::format("skellam: the L1 sensitivity ({}) must be at least the L2 sensitivity ({}), and both positive",
                        m.l1_sensitivity, m.sensitivity));
    require(m.sampling_rate >= 1, "skellam with sampling has no proven accountant here; use a sampling rate of 1");
  }
  require(m.kind != MechanismKind::kConcentrated || m.sampling_rate >= 1,
          "zcdp with sampling has no proven accountant here; use a sampling rate of 1");
  require(
      adjacency == Adjacency::kAddRemove || m.sampling_rate >= 1 || m.kind == MechanismKind::kGaussian,
      fmt::format("{} with sampling is proven for adjacency add_remove only; use it, or a sampling rate of 1", name));
}

}  // namespace chorus::inline privacy

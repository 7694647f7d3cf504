#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/privacy/mechanism.h"

namespace chorus::inline privacy {

enum class AccountantKind {
  kRdp,  ///< Rényi divergences (rdp.h): fast, looser
  kPld   ///< privacy loss distributions (pld.h): tight
};
std::string_view name_of(AccountantKind kind);
AccountantKind accountant_named(std::string_view name);

/// Everything that was released about the same records, composed sequentially.
struct Releases {
  std::vector<Mechanism> mechanisms;
  Adjacency adjacency = Adjacency::kAddRemove;
  double delta = 1e-5;
};

/// Adds a mechanism; equal ones are merged.
void add(Releases& releases, const Mechanism& mechanism);

/// What the releases cost. The two accountants check each other: both are upper bounds, and PLD is never above RDP.
struct Spent {
  double epsilon = 0;           ///< of the chosen accountant
  std::optional<double> rdp{};  ///< empty where RDP does not cover a mechanism
  std::optional<double> pld{};  ///< empty unless chosen
};

/// Epsilon for the releases' delta. ConfigError for invalid values, for mechanisms that the accountant does not cover,
/// and for delta = 0 where only delta > 0 can be promised. InternalError when the accountants contradict each other.
///
///     const Spent spent = account({.mechanisms = {step}, .delta = 1e-5}, AccountantKind::kPld);
///
/// `cells` is for the PLD accountant (pld.h): fewer are faster and report a slightly larger epsilon.
Spent account(const Releases& releases, AccountantKind kind, std::size_t cells = std::size_t{1} << 20);

/// The smallest noise of the first mechanism (within 0.01 %, rounded up) with which the releases cost at most
/// `epsilon`.
double calibrate(Releases releases, double epsilon, AccountantKind kind);

/// Explains in plain words what is protected, from whom, and what the values mean.
std::string explain(const Releases& releases, const Spent& spent);

}  // namespace chorus::inline privacy

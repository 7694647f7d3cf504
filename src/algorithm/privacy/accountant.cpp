#include "algorithm/privacy/accountant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/privacy/pld.h"
#include "algorithm/privacy/rdp.h"
#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

constexpr std::size_t kRefine = std::size_t{1} << 18, kSearch = std::size_t{1} << 14;

void check_releases(const Releases& releases) {
  if (!(releases.delta >= 0 && releases.delta < 1)) {
    throw ConfigError(fmt::format("delta is {}; it must be at least 0 and below 1", releases.delta));
  }
  for (const Mechanism& m : releases.mechanisms) validate(m, releases.adjacency);
}

bool rdp_covers(const Releases& releases) {
  try {
    for (const Mechanism& m : releases.mechanisms) step_rdp(m, releases.adjacency, 2);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

double epsilon_with(const Releases& releases, AccountantKind kind, std::size_t cells) {
  if (kind == AccountantKind::kRdp) return rdp_epsilon(releases.mechanisms, releases.adjacency, releases.delta);
  return pld_epsilon(releases.mechanisms, releases.adjacency, releases.delta, cells);
}

void require_finite(double epsilon, const Releases& releases, AccountantKind kind) {
  if (std::isfinite(epsilon)) return;
  if (releases.delta > 0) throw ConfigError("epsilon is too large for any accountant here; use more noise");
  throw ConfigError(kind == AccountantKind::kRdp
                        ? "the RDP accountant promises nothing for delta = 0; give a positive delta"
                        : "a mechanism here promises nothing for delta = 0; give a positive delta");
}

}  // namespace

std::string_view name_of(AccountantKind kind) { return kind == AccountantKind::kRdp ? "rdp" : "pld"; }

AccountantKind accountant_named(std::string_view name) {
  if (name == "rdp") return AccountantKind::kRdp;
  if (name == "pld") return AccountantKind::kPld;
  throw ConfigError(fmt::format("unknown accountant '{}'; use rdp or pld", name.substr(0, 60)));
}

void add(Releases& releases, const Mechanism& mechanism) {
  for (Mechanism& known : releases.mechanisms) {
    Mechanism same = mechanism;
    same.steps = known.steps;
    if (same != known) continue;
    known.steps += mechanism.steps;
    return;
  }
  releases.mechanisms.push_back(mechanism);
}

Spent account(const Releases& releases, AccountantKind kind, std::size_t cells) {
  check_releases(releases);
  Spent spent;
  if (kind == AccountantKind::kRdp || rdp_covers(releases)) {
    spent.rdp = epsilon_with(releases, AccountantKind::kRdp, 0);
  }
  if (kind == AccountantKind::kPld) spent.pld = epsilon_with(releases, kind, cells);
  spent.epsilon = kind == AccountantKind::kPld ? *spent.pld : *spent.rdp;
  require_finite(spent.epsilon, releases, kind);
  if (spent.rdp && spent.pld && *spent.pld > *spent.rdp * 1.001 + 1e-3) {
    if (cells >= kRefine) {
      throw InternalError(fmt::format("the accountants contradict each other: PLD says epsilon {}, RDP says at most {}",
                                      *spent.pld, *spent.rdp));
    }
    spent.epsilon = *spent.rdp;  // a coarse grid may overestimate more than RDP does
  }
  return spent;
}

double calibrate(Releases releases, double epsilon, AccountantKind kind) {
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    throw ConfigError(fmt::format("the wanted epsilon is {}; it must be positive", epsilon));
  }
  check(!releases.mechanisms.empty(), "there is a mechanism to calibrate");
  double& noise = releases.mechanisms.front().noise;
  const bool probability = releases.mechanisms.front().kind == MechanismKind::kRandomizedResponse;
  const double least = probability ? 1e-9 : 1e-3, most = probability ? 1 : 1e5;
  noise = most;
  check_releases(releases);
  const auto enough = [&](double x, std::size_t cells) {
    noise = x;
    return epsilon_with(releases, kind, cells) <= epsilon;
  };
  if (!enough(most, kSearch)) {
    require_finite(epsilon_with(releases, kind, kSearch), releases, kind);
    throw ConfigError(fmt::format(
        "no noise up to {} reaches epsilon {}; allow a larger one, fewer steps or a larger delta", most, epsilon));
  }
  if (enough(least, kSearch)) return least;
  double low = least, high = most;
  const double ratio = kind == AccountantKind::kRdp ? 1.0001 : 1.001;
  while (high > low * ratio) {
    const double middle = std::sqrt(low * high);
    (enough(middle, kSearch) ? high : low) = middle;
  }
  if (kind == AccountantKind::kRdp) return high;
  // Few cells overestimate epsilon, so the noise they find suffices; many cells then find how much less suffices.
  // Epsilon is nearly a power of the noise there, so few of these slow steps are enough.
  noise = high;
  double above = epsilon_with(releases, kind, kRefine), slope = -1;
  for (int step = 0; step < 6 && above < epsilon * (1 - 1e-4) && high > least; ++step) {
    const double next = std::max(least, high * std::pow(epsilon * (1 - 3e-5) / above, 1 / slope));
    noise = next;
    const double there = epsilon_with(releases, kind, kRefine);
    if (there > above) slope = std::min(std::log(there / above) / std::log(next / high), -0.1);
    if (there > epsilon) continue;  // too little: the better slope comes closer
    high = next;
    above = there;
  }
  return high;
}

std::string explain(const Releases& releases, const Spent& spent) {
  std::string text;
  const bool replace = releases.adjacency == Adjacency::kReplace;
  const std::int64_t group = releases.mechanisms.empty() ? 1 : releases.mechanisms.front().group;
  const std::string record = group == 1 ? "one record" : fmt::format("a group of {} records", group);
  text += fmt::format(
      "What is protected: {}. Whoever sees everything that was released learns almost the same, whether {} {}.\n",
      record, record, replace ? "has its value or any other value" : "is in the data or not");
  text +=
      "A record is a user where whole contributions are clipped (user level), an example where single gradients are "
      "(example level).\n";
  for (const Mechanism& m : releases.mechanisms) {
    text += fmt::format("Released: {} time(s), {} with noise {}", m.steps, name_of(m.kind), m.noise);
    text += m.sampling_rate < 1
                ? fmt::format(
                      ", on a Poisson sample: every record takes part with probability {}, on its own and unseen.\n",
                      m.sampling_rate)
                : std::string(", on all records.\n");
  }
  text += fmt::format(
      "Epsilon {:.4f} at delta {:g}: whatever can be observed is at most {:.4g} times as likely with the record as "
      "without "
      "it, plus a probability of {:g}; and the other way round.\n",
      spent.epsilon, releases.delta, std::exp(std::min(spent.epsilon, 700.0)), releases.delta);
  text += fmt::format(
      "A test that finds the record with at most 5 % false alarms succeeds in at most {:.1f} % of the cases.\n",
      100 * std::min(1.0, std::min(std::exp(std::min(spent.epsilon, 700.0)) * 0.05 + releases.delta,
                                   1 - std::exp(-spent.epsilon) * (1 - releases.delta - 0.05))));
  if (spent.pld) text += fmt::format("Privacy loss distribution: epsilon {:.6f} (an upper bound).\n", *spent.pld);
  if (spent.rdp) text += fmt::format("Rényi accountant: epsilon {:.6f} (a looser upper bound).\n", *spent.rdp);
  text +=
      "It does not hold for other sampling (shuffled batches, fixed-size cohorts), for weights that depend on the "
      "data, or for anything else that was computed from the same records.\n";
  return text;
}

}  // namespace chorus::inline privacy

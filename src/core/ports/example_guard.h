#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/client_id.h"
#include "core/base/privacy_report.h"
#include "core/config/registry.h"

namespace chorus::inline ports {

/// Differential privacy for every single example, in a client's own training.
struct ExamplePrivacyConfig {
  double clip = 1;            ///< L2 norm that the gradient of one example is clipped to
  double noise = 0;           ///< standard deviation of the noise / clip; 0: as much as `epsilon` needs
  double epsilon = 0;         ///< budget of every client; it trains no more before it is exceeded. 0: none
  double delta = 1e-5;        ///< well below 1 / examples of a client
  std::int64_t rounds = 0;    ///< that a client takes part in, where the noise is computed; 0: all of the run
  std::int64_t together = 0;  ///< examples whose gradients are in memory together; 0: as many as fit
  std::string copy = "auto";  ///< folder for the copy of the ledger; auto: the user's state folder; none: no copy

  void describe(ConfigVisitor& visitor);
};

/// How a client trains, as far as it costs: `steps` gradients of Poisson samples of its examples.
struct ExampleWork {
  ClientId client = 0;
  double sampling_rate = 1;
  std::int64_t steps = 1;
};

/// What a guard is made for.
struct ExampleGuardInput {
  ExamplePrivacyConfig config = {};
  std::filesystem::path folder = {};   ///< where the ledger is; empty: nothing is written (trials)
  std::vector<ExampleWork> work = {};  ///< of each client in one round, to compute the noise for
  std::int64_t rounds = 1;             ///< of the whole run
  std::string mark = {};               ///< ExampleGuard::mark, in a run that goes on
};

/// Keeps the promise of example-level privacy: it charges the budget before anything is computed from a client's
/// examples, draws the samples in secret, and draws the noise. Local training (application/trainer/private_training.h)
/// clips and adds. Thread-safe.
class ExampleGuard {
 public:
  static constexpr std::string_view kKind = "example_guard";
  virtual ~ExampleGuard() = default;

  /// Standard deviation of the noise / clip.
  virtual double noise() const = 0;
  /// Charges every client, on disk when it returns; for each why it must not train, or nothing.
  virtual std::vector<std::string> charge(std::span<const ExampleWork> work, std::uint64_t round) = 0;
  /// Numbers below `examples`, each with probability `rate` and independently of the others, ascending.
  virtual std::vector<std::uint32_t> sample(std::size_t examples, double rate) const = 0;
  /// Discrete Gaussian noise with a standard deviation of kUnits.
  static constexpr double kUnits = 0x1.0p24;
  virtual void draw(std::span<std::int64_t> noise) const = 0;

  /// The largest epsilon that any client has spent, by the faster accountant: an upper bound.
  virtual double epsilon() const = 0;
  /// The mark of its ledger, to be kept elsewhere.
  virtual std::string mark() const = 0;
  virtual PrivacyReport report() const = 0;
};

using ExampleGuards = Registry<ExampleGuard, const ExampleGuardInput&>;

}  // namespace chorus::inline ports

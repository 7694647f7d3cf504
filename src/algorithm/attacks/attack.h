#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "algorithm/attacks/poison.h"
#include "core/base/rng.h"
#include "core/config/registry.h"

namespace chorus::inline attacks {

/// What attackers know when they choose their updates.
struct AttackInput {
  std::span<const at::Tensor> own;     ///< the attackers' honest updates, [P] each
  std::span<const at::Tensor> others;  ///< updates of the honest clients; only with Sees::kEveryone
  std::size_t cohort = 0;              ///< clients asked
  std::size_t attackers = 0;           ///< attackers among them
  StreamKey key = {};                  ///< key of random draws; with Sees::kOwn `client` is the attacker
};

/// A behaviour of malicious clients in a simulation: replaces the updates (or predictions) that they send, or the
/// examples they train on. Stateless and thread-safe.
///
///     attacks: {share: 0.25, attack: {name: sign_flip, factor: 4}}      # in a configuration
class Attack {
 public:
  static constexpr std::string_view kKind = "attack";
  enum class Sees { kOwn, kAttackers, kEveryone };
  struct Traits {
    Sees sees = Sees::kOwn;  ///< kOwn: called for each attacker alone, as soon as it replies
  };
  virtual ~Attack() = default;

  /// One vector per entry of `own`. The inputs are not modified.
  virtual std::vector<at::Tensor> corrupt(const AttackInput& input) const = 0;
  /// How the attackers' training examples are changed before the run starts; nothing: unchanged.
  virtual std::optional<Poison> poison() const { return std::nullopt; }
};

using Attacks = Registry<Attack>;

}  // namespace chorus::inline attacks

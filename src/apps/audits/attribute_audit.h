#pragma once

#include <cstddef>

#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// Attribute inference: what a client mostly writes about, read off its update. Training raises the bias of the classes
/// that its examples have, so the class whose bias rose most is the guess (as in label leakage, Wainakh et al. 2022).
struct AttributeReport {
  std::size_t clients = 0;
  double plain = 0, seen = 0;  ///< share of the clients whose most frequent class was guessed
  double chance = 0;           ///< by always guessing the class that most clients have
};

/// ConfigError for tasks without classes, or where their biases do not train.
AttributeReport audit_attribute(const AuditedRun& run, const SeenUpdates& updates, std::size_t clients);

}  // namespace chorus::inline audits

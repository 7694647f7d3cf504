#pragma once

#include <cstddef>

#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// What the activations that clients send in split learning say about their words. The attacker has texts like theirs
/// (the test examples) with the activations that the client part computes from them, and learns a linear map from
/// activations to word embeddings (ridge regression). Applied to a client's activations, it guesses for every token the
/// word whose embedding is nearest.
struct ActivationReport {
  std::size_t tokens = 0;      ///< of training texts, special ones not counted
  int layers = 0;              ///< at the client
  double plain = 0, seen = 0;  ///< share of the tokens that are guessed right: without noise, and with the run's
  double noise = 0;            ///< of the run
  double chance = 0;           ///< by always guessing the most frequent one
};

/// ConfigError for a run without split learning.
ActivationReport audit_activations(const AuditedRun& run, std::size_t texts);

}  // namespace chorus::inline audits

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithm/audit/token_recovery.h"
#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// Reconstruction of a text from the update of a client that made one step on it. Two stages:
///
/// 1. Words: only the rows of the word table that the text uses have a gradient, so the rows that moved most are its
///    tokens (as many as the text has distinct tokens, which the attacker is given).
/// 2. Order: candidates are orders of these tokens; the one whose gradient points most like the update wins (gradient
///    matching as in DLG, Zhu et al. 2019; a search over orders as in LAMP, Balunović et al. 2022). Gradients of many
///    candidates are one pass. Special tokens stay where the tokenizer puts them.
struct LeakageReport {
  std::size_t texts = 0;
  TokenRecovery plain = {}, seen = {};  ///< means; without protection, and as the run protects updates
  std::string example = {}, plain_example = {}, seen_example = {};  ///< the first text, and what was reconstructed
};

struct LeakageOptions {
  std::size_t texts = 8;
  std::size_t sweeps = 4;  ///< passes over all pairs of tokens that may change places
};

/// ConfigError for a run whose word table does not train: then updates have no rows to read (and the audit does not
/// apply), and for tasks other than classification and language models.
LeakageReport audit_leakage(const AuditedRun& run, const SeenUpdates& updates, const LeakageOptions& options);

}  // namespace chorus::inline audits

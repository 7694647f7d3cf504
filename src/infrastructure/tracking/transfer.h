#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline tracking {

/// What learning one segment of time after the other does to the others (Lopez-Paz and Ranzato 2017). R[i][j] is the
/// main score on held-out examples of segment j after segment i (i = 0: before any), T segments, higher is better:
///     backward = 1 / (T - 1) sum_{j < T} (R[T][j] - R[j][j])        negative: forgetting
///     forward  = 1 / (T - 1) sum_{j > 1} (R[j-1][j] - R[0][j])      what earlier segments teach about later ones
/// For scores of which less is better the sign is turned, so that more is always better.
struct Transfer {
  std::vector<std::vector<double>> scores;  ///< [T + 1][T]
  double backward = 0, forward = 0;
};

/// Under these names the scores are in PhaseSummary::last; the first phase also has those before it.
std::string segment_score_name(std::size_t segment, bool before = false);

/// Nothing where the run has no such scores, or fewer than two segments.
std::optional<Transfer> transfer_of(const RunSummary& summary);
/// For people.
std::string transfer_text(const Transfer& transfer);

}  // namespace chorus::inline tracking

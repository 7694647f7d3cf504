#pragma once

#include <span>
#include <string>

#include "core/base/client_spread.h"

namespace chorus::inline tracking {

/// Spreads over clients as a table; for one run, or with `runs`, which labels each spread, for several.
std::string spread_text(std::span<const ClientSpread> spreads, std::span<const std::string> runs = {});

/// `own_scores.json` of a run folder (docs/reference/formats.md): the scores of every client.
std::string own_scores_json(std::span<const OwnScore> scores, const std::string& metric, bool higher_is_better);

}  // namespace chorus::inline tracking

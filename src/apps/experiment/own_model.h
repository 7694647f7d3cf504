#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "core/base/client_id.h"
#include "core/base/client_spread.h"

namespace chorus::inline experiment {

/// Writes the own model of one client of a simulated run, at the newest checkpoint, as a Hugging Face folder. Reads the
/// run's data, since some methods compute the own model by training. Returns one line for the user. ConfigError when
/// the algorithm has no own models or there is no such client; DataError when the run has no checkpoint, or the
/// client's state belongs to another network.
std::string export_own_model(const std::filesystem::path& run, ClientId client, const std::filesystem::path& to);

/// Writes `own_scores.json`, every client's scores, and `own_scores.svg`, their cumulative distribution.
void write_own_scores(const std::filesystem::path& run, std::span<const OwnScore> scores, const std::string& metric,
                      bool higher_is_better);

}  // namespace chorus::inline experiment

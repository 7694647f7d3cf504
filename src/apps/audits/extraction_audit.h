#pragma once

#include <cstddef>
#include <string>

#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// Extraction by generation: the model reads the first half of a canary and writes on (greedily). A canary is extracted
/// when it writes the rest, word for word. A canary with k copies that is extracted is k-eidetic memorised (Carlini et
/// al. 2021).
struct ExtractionReport {
  std::size_t planted = 0, extracted = 0;
  std::size_t others = 0, others_extracted = 0;  ///< not planted: what chance gives
  std::int64_t copies = 0;                       ///< k
  std::string example = {};                      ///< an extracted canary
};

/// ConfigError for a model that does not write, or a run without canaries.
ExtractionReport audit_extraction(const AuditedRun& run);

}  // namespace chorus::inline audits

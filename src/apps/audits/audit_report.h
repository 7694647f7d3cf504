#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/audits/activation_audit.h"
#include "apps/audits/attribute_audit.h"
#include "apps/audits/canary_audit.h"
#include "apps/audits/extraction_audit.h"
#include "apps/audits/leakage_audit.h"
#include "apps/audits/membership_audit.h"

namespace chorus::inline audits {

struct AuditOptions {
  std::vector<std::string> only = {};  ///< canaries, membership, extraction, leakage, attribute, activations; empty:
                                       ///< all that fit
  std::size_t examples = 500, texts = 8, clients = 20;
  double confidence = 0.95;
};

/// Everything that was tried on a run. An audit that does not fit the run is left out, with the reason in `skipped`.
struct AuditReport {
  std::string run = {};
  std::optional<PrivacyReport> privacy = {};
  std::string protection = {};  ///< of updates, in words
  std::optional<CanaryReport> canaries = {};
  std::optional<MembershipReport> membership = {};
  std::optional<ExtractionReport> extraction = {};
  std::optional<LeakageReport> leakage = {};
  std::optional<AttributeReport> attribute = {};
  std::optional<ActivationReport> activations = {};
  std::vector<std::string> skipped = {};

  /// The lower bound exceeds the accounted epsilon: accounting or mechanism is wrong.
  bool contradicts() const;
};

AuditReport audit_run(const AuditedRun& run, std::span<const std::unique_ptr<AuditedRun>> shadows,
                      const AuditOptions& options);

nlohmann::ordered_json to_json(const AuditReport& report);
/// Lines for a person.
std::string to_text(const AuditReport& report);
/// How exposed planted canaries are, beside those that were not planted.
std::string exposure_picture(const AuditReport& report);

}  // namespace chorus::inline audits

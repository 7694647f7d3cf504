#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/client_id.h"
#include "core/base/privacy_report.h"
#include "core/config/registry.h"

namespace chorus::inline ports {

/// What a guard of labels is made for.
struct LabelGuardInput {
  double epsilon = 1;                  ///< of one label
  std::size_t labels = 2;              ///< that exist
  std::filesystem::path folder = {};   ///< where the ledger is
  std::filesystem::path copies = {};   ///< folder for the copy of the ledger; empty: no copy
  std::vector<ClientId> clients = {};  ///< whose labels are given out
  std::string mark = {};               ///< LabelGuard::mark, in a run that goes on
};

/// Local differential privacy for labels: clients train on randomized responses instead of their labels. Making a guard
/// charges one release of every label, on disk when it returns; each label may be given out once.
class LabelGuard {
 public:
  static constexpr std::string_view kKind = "label_guard";
  virtual ~LabelGuard() = default;

  /// What is given out instead of this label.
  virtual std::int32_t answer(std::int32_t own) = 0;
  /// The mark of its ledger, to be kept elsewhere.
  virtual std::string mark() const = 0;
  virtual PrivacyReport report() const = 0;
};

using LabelGuards = Registry<LabelGuard, const LabelGuardInput&>;

}  // namespace chorus::inline ports

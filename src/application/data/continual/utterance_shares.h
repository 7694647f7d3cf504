#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"

namespace chorus::inline continual {

/// When two texts count as the same utterance.
enum class SameText {
  kExact,  ///< equal bytes
  kFolded  ///< equal after lower-casing (Unicode's simple mapping) and collapsing and trimming whitespace
};

struct UtteranceOptions {
  SameText same = SameText::kExact;
  bool repeated = false;    ///< count repetitions; Dupuy et al. 2022 count distinct utterances
  std::size_t groups = 10;  ///< of devices by activity
};

/// Shares of a device's utterances of a period; they sum to 1.
struct UtteranceShares {
  double own = 0;     ///< said before by the device itself
  double others = 0;  ///< said before by another device only
  double fresh = 0;   ///< never said before
};

/// Devices of similar activity. The shares are means over devices, as in Dupuy et al. 2022.
struct UtteranceGroup {
  std::size_t devices = 0;
  std::size_t utterances = 0;             ///< counted in the period
  std::size_t smallest = 0, largest = 0;  ///< activity: utterances of the device, before and in the period
  UtteranceShares mean;
};

/// Dupuy et al. 2022, Fig. 4: what of a period is new. `groups` go from least to most active: of n devices with an
/// utterance in the period, ordered by activity (core/base/activity.h), group g has those from n g / groups to n (g +
/// 1) / groups; with fewer devices than groups, one each. `devices` has one entry per client; clients without
/// utterances are all 0.
struct UtteranceReport {
  std::vector<UtteranceGroup> groups;
  UtteranceGroup all;
  std::vector<UtteranceShares> devices;
  std::size_t known = 0;  ///< distinct earlier utterances
};

/// Compares each client's `period` with everything in `before`, its own and others'. An utterance is the whole text of
/// an example (both sentences of a pair, the words of a tagged one). Texts are compared by 128-bit hashes: about 40
/// bytes per distinct utterance of `before`, and a collision probability below 1e-20 for a billion.
///
///     const UtteranceReport report = utterance_shares(data, segments.united(), segments.test);
UtteranceReport utterance_shares(const Dataset& data, const ClientLists& before, const ClientLists& period,
                                 const UtteranceOptions& options = {});

/// The mean of reports on several periods, group by group, as Fig. 4 averages P2 and P3. InternalError when the numbers
/// of groups differ; `devices` stays empty.
UtteranceReport mean_of(std::span<const UtteranceReport> reports);

/// The report as a table and as JSON.
std::string shares_table(const UtteranceReport& report);
std::string shares_json(const UtteranceReport& report);

/// The text under SameText::kFolded.
std::string folded(std::string_view text);

}  // namespace chorus::inline continual

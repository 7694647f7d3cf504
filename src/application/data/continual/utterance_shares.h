#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"

namespace chorus {

/// When two texts are the same utterance.
enum class SameText {
  kExact,  ///< equal bytes
  kFolded  ///< equal after lower-casing (Unicode's simple mapping), blanks of any kind as one, none at the ends
};

struct UtteranceOptions {
  SameText same = SameText::kExact;
  bool repeated = false;    ///< count an utterance as often as the device said it; paper 002: its set of unique ones
  std::size_t groups = 10;  ///< of devices by activity
};

/// Shares of a device's utterances of a period; they sum to 1.
struct UtteranceShares {
  double own = 0;     ///< said by the device itself before
  double others = 0;  ///< new for the device, but said by another one before
  double fresh = 0;   ///< said by nobody before
};

/// Devices of like activity. The shares are means over the devices, each counting once, as in paper 002.
struct UtteranceGroup {
  std::size_t devices = 0;
  std::size_t utterances = 0;             ///< counted ones, of the period
  std::size_t smallest = 0, largest = 0;  ///< activity: utterances of the device, before and in the period
  UtteranceShares mean;
};

/// Paper 002's Fig. 4: what of a period is new. `groups` go from least to most active: of n devices with an utterance
/// in the period, ordered by activity (core/base/activity.h), group g has those from n g / groups to n (g + 1) /
/// groups; with fewer devices than groups there is one a device. `devices` has an entry a client; those without
/// utterances are all 0.
struct UtteranceReport {
  std::vector<UtteranceGroup> groups;
  UtteranceGroup all;
  std::vector<UtteranceShares> devices;
  std::size_t known = 0;  ///< distinct utterances before the period
};

/// Compares each client's `period` with everything of `before`, the client's own and others'. An utterance is all the
/// text of an example (both sentences of a pair, the words of a tagged one). Texts are compared by 128-bit hashes:
/// memory is some 40 bytes a distinct utterance of `before`, and the chance of one confusion is below 1e-20 for a
/// billion.
///
///     const UtteranceReport report = utterance_shares(data, segments.united(), segments.test);
UtteranceReport utterance_shares(const Dataset& data, const ClientLists& before, const ClientLists& period,
                                 const UtteranceOptions& options = {});

/// The mean of reports on several periods, group by group, as Fig. 4 averages P2 and P3: shares and sizes are means.
/// Reports with another number of groups than the first are an InternalError; `devices` stays empty.
UtteranceReport mean_of(std::span<const UtteranceReport> reports);

/// A table for people, and the same as JSON.
std::string shares_table(const UtteranceReport& report);
std::string shares_json(const UtteranceReport& report);

/// The text under SameText::kFolded.
std::string folded(std::string_view text);

}  // namespace chorus

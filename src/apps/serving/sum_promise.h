#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/config/registry.h"
#include "core/ports/aggregation.h"
#include "core/ports/message.h"

namespace chorus::inline serving {

/// Noise that every client adds before it masks.
struct NoiseTerms {
  std::string kind = {};  ///< "skellam"
  double noise = 0;       ///< deviation in a sum / sensitivity
  double clip = 0;        ///< L2 norm of an update
  double honest = 0;      ///< clients that it is divided among
};

/// What protects a client in a secure sum.
struct SumTerms {
  std::string protocol = {};  ///< "secagg_plus"
  double least = 0;           ///< fewest clients in a sum that is revealed
  bool active = false;        ///< it holds against a server that lies
  double bits = 0;            ///< of a quantised element
  double rare = 0;            ///< rows of word tables that fewer clients changed are left out
  /// Shares of the cohort that may collude with the server, and vanish; nothing: the protocol has no such setting.
  std::optional<double> corrupt = {}, dropout = {};
  std::optional<NoiseTerms> noise = {};
};

/// What a job's configuration promises about every sum of a run; of `secure_groups`, about the sum of a group. Nothing
/// where the server sees updates. Without `run.size` noise that is calibrated to an epsilon is not known, and 0.
std::optional<SumTerms> promised_sum(const Choice<Aggregations>& aggregation, const AggregationSetting& run);

/// What a request states about the secure sum that it begins.
struct StatedSum {
  std::string trains;  ///< the procedure whose result is summed; empty: an earlier request named it
  SumTerms terms;
  std::int64_t size = 0;  ///< elements that are summed; 0: an impossible number
};
/// Nothing: it begins none.
std::optional<StatedSum> stated_sum(const Request& request);

/// Client procedures of secure sums.
bool is_secure_procedure(std::string_view procedure);
/// Procedures that train and whose reply nobody needs: with secure sums a client answers them with nothing.
bool may_reply_nothing(std::string_view procedure);

/// Why a request breaks the promise of its job, as one sentence for the server; empty: it keeps it. A server states the
/// terms of every sum itself, whatever its configuration says, so a client compares.
///
///     if (const std::string why = breach_of(*promised_sum(job.aggregation, run), request); !why.empty()) refuse(why);
std::string breach_of(const SumTerms& promised, const Request& request);

}  // namespace chorus::inline serving

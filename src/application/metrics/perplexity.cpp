#include "application/metrics/perplexity.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline metrics {

void Perplexity::add(double summed_loss, double tokens) {
  check(tokens >= 0, "a text cannot have a negative number of tokens");
  tally_.add(tally_.index("text"), {summed_loss, tokens, 0});
  tally_.end_example();
}

Scores Perplexity::finish(const Tally& tally) const {
  const auto [summed_loss, tokens, unused] = tally.totals().empty() ? Tally::Triple{} : tally.totals().front();
  const double loss = tokens > 0 ? summed_loss / tokens : std::numeric_limits<double>::quiet_NaN();
  return {{"loss", loss},
          {"perplexity", std::exp(loss)},
          {"tokens", tokens},
          {"examples", static_cast<double>(tally.examples())}};
}

double relative_change(double value, double baseline) { return 100 * (value - baseline) / baseline; }

}  // namespace chorus::inline metrics

// Totals of evaluations that clients return for their server's metrics (tools/fuzz): they are refused, or give scores
// together with those of others.
#include <ATen/ATen.h>

#include <cstdlib>

#include "application/metrics/breakdown.h"
#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/metrics/perplexity.h"
#include "application/metrics/rouge.h"
#include "application/metrics/spans.h"
#include "application/metrics/squad.h"
#include "application/trainer/client_pool.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"
#include "tests/fuzz/forgery.h"

namespace chorus::inline fuzz {
namespace {

template <typename M, typename... Options>
std::unique_ptr<Metric> metric_of(std::function<void(M&)> add, Options... options) {
  auto metric = std::make_unique<M>(options...);
  add(*metric);
  return metric;
}

/// Of an honest client, one of every kind.
std::vector<std::unique_ptr<Metric>> honest_metrics() {
  static const std::vector<std::string> tags{"B-PER", "I-PER", "O"}, other{"B-LOC", "I-PER", "O"}, texts{"in Paris"};
  std::vector<std::unique_ptr<Metric>> all;
  all.push_back(metric_of<Classification>([](auto& m) { m.add("a", "b"), m.add("b", "b"); },
                                          ClassificationOptions{.labels = {"a", "b"}, .positive = "b"}));
  all.push_back(metric_of<SpanF1>([](auto& m) { m.add(tags, other); }));
  all.push_back(metric_of<SquadF1>([](auto& m) { m.add("Paris", texts); }, SquadVersion::kV1));
  all.push_back(metric_of<SquadF1>([](auto& m) { m.add("Paris", texts), m.add("", {}); }, SquadVersion::kV2));
  all.push_back(metric_of<Rouge>([](auto& m) { m.add("Paris in spring", texts); }));
  all.push_back(metric_of<Perplexity>([](auto& m) { m.add(12, 7); }));
  all.push_back(metric_of<Correlation>([](auto& m) { m.add(1, 2), m.add(3, 5), m.add(4, 4); }));
  return all;
}

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  static const TorchThreads kOne(1);
  static const auto kHonest = honest_metrics();
  Dice dice(bytes, size);
  const Metric& honest = *kHonest[dice.below(kHonest.size())];
  Breakdown clients(honest.fresh(Keep::kTotals));
  clients.client("0").add_totals(honest.totals());
  const auto pooled = honest.fresh(Keep::kTotals);
  pooled->add_totals(honest.totals());
  for (int client = 1; client < 4; ++client) {
    Message message = to_message(honest.totals());
    for (std::size_t i = dice.below(4); i > 0; --i) forge(message, dice);
    try {
      const MetricTotals totals = totals_of(message);
      honest.fresh(Keep::kTotals)->add_totals(totals);
      pooled->add_totals(totals);
      clients.client(std::to_string(client)).add_totals(totals);
    } catch (const DataError&) {  // its scores are left out
    }
  }
  if (pooled->examples() < honest.examples() || pooled->scores().empty()) std::abort();
  if (clients.by_decile().empty() || clients.by_client().empty()) std::abort();
  return 0;
}

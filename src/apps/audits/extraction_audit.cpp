#include "apps/audits/extraction_audit.h"

#include <algorithm>

#include "application/models/batch.h"
#include "application/models/generation.h"
#include "core/base/error.h"

namespace chorus::inline audits {

ExtractionReport audit_extraction(const AuditedRun& run) {
  const Experiment& experiment = run.experiment();
  const auto* model = dynamic_cast<const GenerativeModel*>(&experiment.model());
  if (model == nullptr || model->has_encoder() || experiment.canaries().empty()) {
    throw ConfigError("extraction: needs a language model that writes (task: causal_lm) and canaries (audit)");
  }
  const at::NoGradGuard no_grad;
  const Params params = Params::views_of_start(experiment.params(), 1, run.model(), false);
  ExtractionReport report;
  report.copies = run.config().audit->repeats;
  for (const Canary& canary : experiment.canaries()) {
    std::vector<std::int32_t> ids;
    experiment.tokenizer().encode_ids(experiment.data().text(canary.examples.front()), ids, false);
    const std::size_t half = ids.size() / 2;
    if (half == 0) continue;
    const TokenRow prompt(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(half));
    GenerationOptions options;
    options.max_new_tokens = static_cast<std::int64_t>(ids.size() - half);
    options.min_new_tokens = options.max_new_tokens;
    const auto written = generate(*model, params, collate({{prompt}}, {}, params.device()), options).front();
    const bool same = written.size() == ids.size() && std::equal(written.begin(), written.end(), ids.begin());
    (canary.planted ? report.planted : report.others) += 1;
    (canary.planted ? report.extracted : report.others_extracted) += same ? 1 : 0;
    if (same && canary.planted && report.example.empty()) report.example = experiment.tokenizer().decode(ids);
  }
  return report;
}

}  // namespace chorus::inline audits

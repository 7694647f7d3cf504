#include "application/tasks/masked_lm_task.h"

#include <fmt/format.h>

#include "application/models/loss.h"
#include "application/tasks/text_rows.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline tasks {
namespace {

const Registration<Tasks, MaskedLmConfig> kMasked{
    "masked_lm", "guess the tokens that were hidden (BERT)",
    [](const MaskedLmConfig& config, const TaskInput& input) { return std::make_unique<MaskedLmTask>(config, input); }};

}  // namespace

void MaskedLmConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a text, special ones included; the rest is cut").at_least(4);
  visitor.field("mask_probability", mask_probability, "how often a token is chosen").above(0).at_most(1);
  visitor.field("masked", masked, "share of the chosen tokens that become the mask token").at_least(0).at_most(1);
  visitor.field("replaced", replaced, "share that becomes another token; the rest stays").at_least(0).at_most(1);
  visitor.check([this] { return masked + replaced > 1 ? std::string("masked and replaced exceed 1 together") : ""; });
}

MaskedLmTask::MaskedLmTask(const MaskedLmConfig& config, const TaskInput& input)
    : LanguageTask("masked_lm", input),
      config_(config),
      masking_(tokenizer(),
               {.probability = config.mask_probability, .masked = config.masked, .replaced = config.replaced}) {}

std::string MaskedLmTask::encoding_key() const { return fmt::format("max_length={}", config_.max_length); }

void MaskedLmTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  TextRows rows(tokenizer(), config_.max_length);
  for (const std::uint32_t example : examples) {
    const std::size_t begin = out.ids.size();
    if (rows.append(data.text(example), out.ids)) out.count(EncodeCount::kTruncated);
    if (out.ids.size() > begin) out.end_row();
    out.end_example(example);
  }
}

TaskBatch MaskedLmTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device);
  const Packing& packing = *batch.batch.packing;
  at::Tensor ids = batch.batch.host_ids.clone();
  std::vector<std::vector<std::int64_t>> columns(cohort.size()), labels(cohort.size());
  std::vector<std::int64_t> places;
  std::size_t most = 1;
  for (std::size_t c = 0; c < cohort.size(); ++c) {
    std::int64_t column = 0;
    std::int64_t* row_ids = ids.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * packing.tokens();
    for (const std::uint32_t row : cohort[c].rows) {
      const auto original = cohort[c].data->ids(row);
      RandomStream stream({.seed = options.seed,
                           .purpose = "masked-lm",
                           .round = options.round,
                           .client = cohort[c].client,
                           .step = mix(options.epoch, cohort[c].data->example_of(row))});
      places.clear();
      masking_.apply({row_ids + column, original.size()}, stream, places);
      for (const std::int64_t place : places) {
        columns[c].push_back(column + place);
        labels[c].push_back(original[static_cast<std::size_t>(place)]);
      }
      column += static_cast<std::int64_t>(original.size());
    }
    most = std::max(most, columns[c].size());
  }
  const std::vector<std::int64_t> shape{packing.clients(), static_cast<std::int64_t>(most)};
  at::Tensor wanted = torch::zeros(shape, at::kLong);
  at::Tensor asked = torch::full(shape, kIgnore, at::kLong);
  for (std::size_t c = 0; c < cohort.size(); ++c) {
    const std::size_t begin = c * most;
    std::copy(columns[c].begin(), columns[c].end(), wanted.data_ptr<std::int64_t>() + begin);
    std::copy(labels[c].begin(), labels[c].end(), asked.data_ptr<std::int64_t>() + begin);
  }
  batch.batch.host_ids = ids;
  batch.batch.ids = sent_to(options.device, ids);
  batch.batch.wanted = sent_to(options.device, wanted);
  batch.labels = sent_to(options.device, asked);
  batch.counted = count_labels(batch.labels);
  return batch;
}

at::Tensor MaskedLmTask::owner_of_labels(const TaskBatch& batch) const {
  return batch.batch.packing->owner().gather(1, batch.batch.wanted);
}

}  // namespace chorus::inline tasks

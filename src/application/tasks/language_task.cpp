#include "application/tasks/language_task.h"

#include <nlohmann/json.hpp>

#include "application/metrics/perplexity.h"
#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline tasks {

LanguageTask::LanguageTask(std::string name, const TaskInput& input) : Task(std::move(name), input) {
  input_.labels.clear();
}

at::Tensor LanguageTask::loss(const Output& output, const TaskBatch& batch) const {
  return output.loss.defined() ? output.loss : cross_entropy(output.logits, batch.labels);
}

std::vector<Prediction> LanguageTask::decode(const Output& output, const TaskBatch& batch, const Dataset&) const {
  const at::Tensor counted = batch.labels[0].ne(kIgnore);
  const at::Tensor labels = batch.labels[0].masked_select(counted);
  const at::Tensor owner = owner_of_labels(batch)[0].masked_select(counted).to(at::kCPU);
  const at::Tensor logits = output.logits[0].detach().index({counted});
  const at::Tensor losses =
      (logits.logsumexp(-1) - logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)).to(at::kCPU).to(at::kDouble);
  std::vector<double> loss(batch.rows.at(0).size()), tokens(loss.size());
  for (std::int64_t i = 0; i < losses.size(0); ++i) {
    const auto row = static_cast<std::size_t>(owner.data_ptr<std::int64_t>()[i]);
    loss[row] += losses.data_ptr<double>()[i];
    tokens[row] += 1;
  }
  std::vector<Prediction> result;
  for (const auto& [begin, end] : examples_in(batch)) {
    Prediction prediction{.example = batch.data[0]->example_of(batch.rows[0][begin])};
    for (std::size_t b = begin; b < end; ++b) {
      prediction.loss += loss[b];
      prediction.tokens += tokens[b];
    }
    result.push_back(std::move(prediction));
  }
  return result;
}

void LanguageTask::write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const {
  line["loss"] = prediction.loss;
  line["tokens"] = prediction.tokens;
  line["text"] = data.text(prediction.example);
}

std::unique_ptr<Metric> LanguageTask::metric(Keep keep) const { return std::make_unique<Perplexity>(keep); }

void LanguageTask::score(const Prediction& prediction, const Dataset&, Metric& metric) const {
  if (prediction.tokens > 0) dynamic_cast<Perplexity&>(metric).add(prediction.loss, prediction.tokens);
}

}  // namespace chorus::inline tasks

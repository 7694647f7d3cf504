#include "application/trainer/example_losses.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "application/trainer/losses.h"

namespace chorus::inline trainer {
namespace {

constexpr std::size_t kTokens = 16384;  // of a pass

std::size_t tokens_of(const ClientData& data) {
  std::size_t tokens = 0;
  for (const std::uint32_t row : data.rows) tokens += data.data->length(row);
  return tokens;
}

}  // namespace

std::vector<double> example_losses(const TrainerInput& trainer, const at::Tensor& values,
                                   const std::shared_ptr<const EncodedDataset>& encoded,
                                   std::span<const std::uint32_t> examples) {
  const at::NoGradGuard no_grad;
  const at::Device device = trainer.base.device();
  const at::Tensor there = values.to(device);
  std::vector<ClientData> texts;
  std::vector<std::size_t> lengths;
  for (const std::uint32_t example : examples) {
    texts.push_back(trainer.task.client_data(encoded, std::span(&example, 1)));
    lengths.push_back(tokens_of(texts.back()));
  }
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<double> losses(examples.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t first = 0; first < order.size() && lengths[order[first]] > 0;) {
    const std::size_t most = std::clamp<std::size_t>(kTokens / lengths[order[first]], 1, 512);
    std::size_t behind = first;
    std::vector<ClientRows> cohort;
    for (; behind < order.size() && behind - first < most && lengths[order[behind]] > 0; ++behind) {
      const ClientData& text = texts[order[behind]];
      cohort.push_back({text.data.get(), text.rows, 0});
    }
    const Params params = Params::views_of_start(trainer.base, static_cast<std::int64_t>(cohort.size()), there, false);
    TaskBatch batch = trainer.task.collate(cohort, {.device = device});
    if (trainer.model.head()->fuses_loss) batch.batch.answers = batch.labels;
    Dropout off;
    const auto found = as_doubles(trainer.task.loss(trainer.model.forward(params, batch.batch, off), batch));
    for (std::size_t i = first; i < behind; ++i) losses[order[i]] = found[i - first];
    first = behind;
  }
  return losses;
}

}  // namespace chorus::inline trainer

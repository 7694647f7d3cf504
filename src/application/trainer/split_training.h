#pragma once

#include <memory>

#include "application/trainer/split_parts.h"
#include "application/trainer/train_client.h"
#include "application/trainer/trainer_config.h"

namespace chorus::inline trainer {

/// One client's side of a network that is cut in two. Everything that is referred to must outlive the result.
struct SplitClientInput {
  TrainerInput trainer;
  TrainerConfig config = {};
  TrainClient client = {};
  TrainMoment moment = {};
  SplitCut cut = {};
  SplitGuard guard = {};
  at::Tensor start;        ///< values of SplitParts::client
  std::int64_t steps = 0;  ///< of the round
};

/// Trains as LocalTraining does with one batch per optimizer step and no clipping: at any cut, both sides together
/// compute the same bits as the whole network would, dropout included. DataError for a start of another size.
std::unique_ptr<SplitClient> split_client(const SplitClientInput& input);

/// The server's side. Has no data: batches come as activations, lengths and (unless labels stay) labels.
///
///     const SplitTrainingDesk desk({task, model, params}, config, seed, rounds);
class SplitTrainingDesk final : public SplitDesk {
 public:
  SplitTrainingDesk(const TrainerInput& trainer, const TrainerConfig& config, std::uint64_t seed, std::uint64_t rounds)
      : trainer_(trainer), config_(config), seed_(seed), rounds_(rounds) {}

  SplitParts parts(const SplitCut& cut) const override;
  std::unique_ptr<SplitServer> server(const SplitCut& cut, const at::Tensor& start, std::uint64_t round) const override;

 private:
  TrainerInput trainer_;
  TrainerConfig config_;
  std::uint64_t seed_, rounds_;
};

}  // namespace chorus::inline trainer

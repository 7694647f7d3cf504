#include "algorithm/personal/start_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/collect.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr double kLeastLoss = 1e-10;

// Trains from the model and reports the loss of the client's data before training.
class FairTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const GradientResult before = bench.gradient(request.body.vector("model", bench.parameters()), false);
    TrainedCohort local = train_from_model(request, bench);
    for (std::size_t i = 0; i < local.answers.size(); ++i) {
      Answer& answer = local.answers[i];
      if (answer.failure.empty()) answer.failure = before.failures[i];
      answer.body.numbers["start_loss"] = before.loss[i];
    }
    return std::move(local.answers);
  }
};

const ProcedureRegistration<FairTrain> kFairTrain{"fair/train", "train, and report the loss before"};

}  // namespace

double start_loss(const Reply& reply) {
  const double loss = reply.body.number("start_loss");
  if (!(loss >= 0 && loss <= 1e15)) throw DataError("its loss is not a number between 0 and 1e15");
  return std::max(loss, kLeastLoss);
}

}  // namespace chorus::inline personal

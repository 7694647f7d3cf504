#include "algorithm/personal/fedrep.h"

#include <ATen/ATen.h>

#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

class FedRepTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const double passes = request.body.number("head_passes");
    if (!(passes >= 1 && passes <= 1e6)) throw DataError("the settings of FedRep are out of range");
    const JoinedStart start = joined_start(request, bench);
    TrainWish head, body;
    head.frozen = start.part.shared_ranges();
    body.frozen = start.part.private_ranges();
    TrainResult result = train_passes(bench, start.values, head, static_cast<std::int64_t>(passes));
    append(result, bench.train(result.values, body));
    return keep_private(start, result, bench);
  }
};

const ProcedureRegistration<FedRepTrain> kFedRepTrain{"fedrep/train", "train the private part, then the shared one"};
const Registration<Algorithms, FedRepConfig> kRegisteredFedRep{
    "fedrep",
    "private heads first, then the shared representation (Collins et al. 2021)",
    [](const FedRepConfig& config) {
      config.refuse_both(FedRepConfig());
      return std::make_unique<FedRep>(config);
    },
    {.own_models = true, .partial = true, .one_sum = true}};

}  // namespace

void FedRepConfig::describe(ConfigVisitor& visitor) {
  PartConfig::describe(visitor);
  visitor.field("head_passes", head_passes, "rounds of local training of the private part, before the shared one")
      .at_least(1);
}

void FedRep::describe_to(Request& request) const {
  LocalParts::describe_to(request);
  request.body.numbers["head_passes"] = static_cast<double>(head_passes_);
}

}  // namespace chorus::inline personal

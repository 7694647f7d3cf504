#include "algorithm/personal/local_parts.h"

#include <ATen/ATen.h>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr const char* kPrivate = "parts.private";

class LocalPartsTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const JoinedStart start = joined_start(request, bench);
    return keep_private(start, bench.train(start.values, {}), bench);
  }
};

class LocalPartsEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    const JoinedStart start = joined_start(request, bench);
    const KeptRows rows{start.values, start.kept};
    if (rows.all()) return rows.values;
    TrainWish wish;
    wish.frozen = start.part.shared_ranges();
    return kept_or(rows, bench.train(start.values, wish).values);
  }
};

const ProcedureRegistration<LocalPartsTrain> kLocalPartsTrain{"local_parts/train",
                                                              "train shared and private parts, reply with the former"};
const ProcedureRegistration<LocalPartsEvaluate> kLocalPartsEvaluate{
    "local_parts/evaluate", "score the shared part with the client's private one"};

constexpr AlgorithmTraits kPartsTraits{.own_models = true, .partial = true, .one_sum = true};

template <typename Config>
std::unique_ptr<Algorithm> make_local_parts(const Config& config) {
  config.refuse_both(Config());
  return std::make_unique<LocalParts>(config);
}

const Registration<Algorithms, FedPerConfig> kRegisteredFedPer{
    "fedper", "private heads over a shared network (Arivazhagan et al. 2019)", make_local_parts<FedPerConfig>,
    kPartsTraits};
const Registration<Algorithms, LgFedAvgConfig> kRegisteredLgFedAvg{
    "lg_fedavg", "private lower layers under a shared top (Liang et al. 2020)", make_local_parts<LgFedAvgConfig>,
    kPartsTraits};
const Registration<Algorithms, FedBnConfig> kRegisteredFedBn{
    "fedbn", "private norms in a shared network (Li et al. 2021)", make_local_parts<FedBnConfig>, kPartsTraits};
const Registration<Algorithms, PartConfig> kRegisteredLocalParts{
    "local_parts", "any private parts: adapters, LoRA factors, layers, names", make_local_parts<PartConfig>,
    kPartsTraits};

}  // namespace

const PrivatePart& LocalParts::part() const {
  check(part_.has_value(), "local parts are prepared before the first round");
  return *part_;
}

RoundResult LocalParts::round_of(const RoundInput& input, std::string procedure) const {
  const at::Tensor shared = part().shared_of(input.model);
  const RoundInput of_part = part_of(input, input.cohort, shared);
  Request request = request_with_model(of_part, std::move(procedure));
  describe_to(request);
  Collected collected = collect(of_part, std::move(request));
  if (collected.means[0].defined()) part().put_shared(shared + collected.means[0], input.model);
  collected.result.numbers["shared_elements"] = static_cast<double>(part().shared_size());
  return std::move(collected.result);
}

Request LocalParts::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  Request request{.procedure = "local_parts/evaluate", .round = round};
  request.body.tensors["model"] = part().shared_of(model);
  describe_to(request);
  return request;
}

JoinedStart joined_start(const Request& request, Workbench& bench) {
  PrivatePart part = read_parts(request.body, bench.layout());
  const at::Tensor beginning = bench.beginning();
  const at::Tensor shared = request.body.vector("model", part.shared_size()).to(beginning.device());
  KeptRows own = kept_rows(bench, kPrivate, part.private_of(beginning));
  at::Tensor values = part.join(shared, own.values);
  return {std::move(part), std::move(values), std::move(own.kept)};
}

std::vector<Answer> keep_private(const JoinedStart& start, const TrainResult& result, Workbench& bench) {
  const at::Tensor own = start.part.private_of(result.values);
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    bench.state(i)[kPrivate] = own[static_cast<std::int64_t>(i)].cpu().clone();
  }
  return answers_of(result, start.part.shared_of(result.values) - start.part.shared_of(start.values), bench);
}

}  // namespace chorus::inline personal

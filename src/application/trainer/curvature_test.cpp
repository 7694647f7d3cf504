#include "application/trainer/curvature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/peft/tuning.h"
#include "application/trainer/cohort_trainer.h"
#include "application/trainer/network_world_test.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

struct CurvatureCase {
  Formulation formulation;
  const char *task, *type;
  const char* tuning = "full";
};
void PrintTo(const CurvatureCase& each, std::ostream* out) { *out << each.task << " " << each.type << each.tuning; }

class EveryCurvature : public testing::TestWithParam<CurvatureCase> {
 protected:
  EveryCurvature() : world_(GetParam().formulation, GetParam().task, GetParam().type) {
    Choice<Tunings>(GetParam().tuning).make()->attach(*world_.model, {});
    world_.params.emplace(world_.model->layout(), Params::Options{});
    world_.params->initialise(3);
    torch::manual_seed(5);
    world_.params->values().add_(torch::randn_like(world_.params->values()), 0.1);  // where curvature is not tiny
  }
  std::unique_ptr<Learner> learner(const std::string& more = "") const { return learner(more, {world_.client}); }
  std::unique_ptr<Learner> learner(const std::string& more, const std::vector<TrainClient>& clients) const {
    const auto config =
        ConfigDocument::parse("{batch_size: 6, clip: 0, optimizer: sgd" + more + "}", "test").load<TrainerConfig>();
    return CohortTrainer(world_.trainer(), config).learner(clients, world_.start(), {1, 2, 1}, {}, {});
  }
  at::Tensor direction() const {
    const at::Tensor v = torch::randn({1, world_.start().numel()});
    return v / v.norm();
  }
  tiny::NetworkWorld world_;
};

// A new learner draws the same masks for its first batch again.
TEST_P(EveryCurvature, EqualsADifferenceOfGradients) {
  const at::Tensor v = direction(), w = world_.start().unsqueeze(0).clone();
  const at::Tensor exact = learner()->curvature(1, v).to(at::kDouble);
  const auto gradient_at = [&](double distance) {
    const auto there = learner();
    there->set_values(w + distance * v);
    return there->probe(1, {.dropout = true, .gradients = true}).gradients.to(at::kDouble);
  };
  EXPECT_GT(exact.norm().item<double>(), 1e-4);
  double error = 1;  // of the best distance: a long one is no derivative, a short one drowns in rounding
  for (const double distance : {3e-2, 1e-2, 3e-3, 1e-3}) {
    const at::Tensor difference = (gradient_at(distance) - gradient_at(-distance)) / (2 * distance);
    error = std::min(error, ((exact - difference).norm() / exact.norm()).item<double>());
  }
  EXPECT_LT(error, 5e-3);
}

TEST_P(EveryCurvature, OfACohortIsThatOfEachClient) {
  std::vector<TrainClient> clients{world_.client, world_.client, world_.client};
  for (ClientId c = 0; c < 3; ++c) clients[c].id = c;  // other masks and orders
  clients[1].data.rows.resize(15);
  clients[2].data.rows.resize(7);
  const at::Tensor v = torch::cat({direction(), direction(), direction()});
  const at::Tensor w = world_.start() + 0.01 * torch::randn_like(v);
  const auto all = learner("", clients);
  all->set_values(w);
  const at::Tensor together = all->curvature(0, v);
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto alone = learner("", {clients[static_cast<std::size_t>(c)]});
    alone->set_values(w[c]);
    const at::Tensor expected = alone->curvature(0, v.narrow(0, c, 1))[0];
    EXPECT_LT((together[c] - expected).norm().item<double>(), 1e-4 * expected.norm().item<double>()) << c;
  }
}

TEST_P(EveryCurvature, IsSymmetricAndLinearAlsoWithDropout) {
  const at::Tensor u = direction(), v = direction();
  const auto times = [&](const at::Tensor& x) { return learner()->curvature(0, x).to(at::kDouble); };
  const at::Tensor hu = times(u), hv = times(v);
  const double size = hv.norm().item<double>();
  EXPECT_NEAR((u * hv).sum().item<double>(), (v * hu).sum().item<double>(), 1e-5 * size);
  EXPECT_LT((times(2 * u - v) - (2 * hu - hv)).norm().item<double>(), 1e-4 * size);
  const auto dry = learner(", dropout: false");
  EXPECT_FALSE(torch::allclose(dry->curvature(0, v).to(at::kDouble), hv)) << "dropout was left out";
}

INSTANTIATE_TEST_SUITE_P(
    Trainer, EveryCurvature,
    testing::Values(CurvatureCase{Formulation::kTextClassification, "text_classification", "bert"},
                    CurvatureCase{Formulation::kTextClassification, "text_classification", "bert", "lora"},
                    CurvatureCase{Formulation::kTextClassification, "text_classification", "bert", "prefix"},
                    CurvatureCase{Formulation::kTextClassification, "text_classification", "distilbert", "houlsby"},
                    CurvatureCase{Formulation::kSequenceTagging, "seq_tagging", "roberta"},
                    CurvatureCase{Formulation::kSpanExtraction, "span_extraction", "bert"},
                    CurvatureCase{Formulation::kLanguageModel, "masked_lm", "bert"},
                    CurvatureCase{Formulation::kLanguageModel, "causal_lm", "gpt2"},
                    CurvatureCase{Formulation::kLanguageModel, "causal_lm", "lstm"},
                    CurvatureCase{Formulation::kTextClassification, "text_classification", "bilstm"},
                    CurvatureCase{Formulation::kSeq2Seq, "seq2seq", "bart"},
                    CurvatureCase{Formulation::kSeq2Seq, "seq2seq", "t5"}));

}  // namespace
}  // namespace chorus::inline trainer

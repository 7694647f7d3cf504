// Methods that learn from predictions on a public set: values of another implementation, closed forms, and settings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "algorithm/distillation/fedid_client.h"
#include "algorithm/distillation/teaching.h"
#include "tests/contract/distillation_rounds.h"

namespace chorus::inline contract {
namespace {

nlohmann::json golden_rounds() {
  std::ifstream file(CHORUS_SOURCE_DIR "/tests/golden/distillation_rounds.json");
  return nlohmann::json::parse(file);
}

struct GoldenCase {
  std::string method, options = "{}", aggregation = "mean";
  bool visible = false;  // momentum, a falling rate and dropout show what optimizers and dropout do
  bool scores = false;   // a regression
};

void expect_rounds(const std::string& name, const GoldenCase& how, const nlohmann::json& golden) {
  DistillationRounds run(how.method, three_learners(), how.options);
  if (how.scores) run.regress();
  run.aggregation = how.aggregation;
  run.world.momentum = how.visible ? 0.5 : 0;
  run.world.decay = run.world.dropout = how.visible;
  for (const auto& expected : golden.at(name)) {
    run.step();
    for (std::int64_t p = 0; p < run.world.parameters(); ++p) {
      const auto at = static_cast<std::size_t>(p);
      EXPECT_NEAR(run.model[p].item<double>(), expected.at("server")[at].get<double>(), 5e-6) << name;
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(run.own(static_cast<ClientId>(k))[p].item<double>(), expected.at("clients")[k][at].get<double>(),
                    5e-6)
            << name << ", client " << k;
      }
    }
  }
}

TEST(Distillation, EqualsTheValuesOfAnotherImplementation) {
  const std::string batches = "{epochs: 2, batch_size: 3", written = batches + ", preset: as_written";
  const std::map<std::string, GoldenCase> cases{
      {"ds_fl hard", {"ds_fl", "{epochs: 2}"}},
      {"ds_fl soft", {"ds_fl", "{epochs: 2, labels: soft, temperature: 0.5}"}},
      {"ds_fl votes", {"ds_fl", "{epochs: 2, send: votes}"}},
      {"calibrated", {"calibrated", "{epochs: 2, prior: 0.5, confidence: 2}"}},
      {"calibrated trust", {"calibrated", "{epochs: 2, prior: 0.5, confidence: 2, trust: 3}"}},
      {"mhat hard", {"mhat", "{epochs: 2}"}},
      {"mhat soft", {"mhat", "{epochs: 2, labels: soft}"}},
      {"fedkd", {"fedkd", "{epochs: 2}"}},
      {"feded", {"feded", "{epochs: 2, temperature: 2}"}},
      {"feddf", {"feddf", "{epochs: 2}"}},
      {"fedmd", {"fedmd", "{epochs: 2}"}},
      {"fedmd transfer", {"fedmd", "{epochs: 2, transfer_epochs: 2}"}},
      {"cronus", {"cronus", "{epochs: 2}"}},
      {"cronus median", {"cronus", "{epochs: 2}", "median"}},
      {"fedid as_published", {"fedid", batches + "}"}},
      {"fedid no feedback", {"fedid", batches + ", feedback: none}"}},
      {"fedid no distillation", {"fedid", batches + ", distillation: false}"}},
      {"fedid as_written", {"fedid", "{epochs: 2, preset: as_written}"}},
      {"fedid scores", {"fedid", "{epochs: 2, preset: as_written}", "mean", false, true}},
      {"fedid scores, no distillation",
       {"fedid", "{epochs: 2, preset: as_written, distillation: false}", "mean", false, true}},
      {"published switches", {"fedid", batches + "}", "mean", true}},
      {"published, one optimizer", {"fedid", batches + ", new_optimizer: false}", "mean", true}},
      {"published, no dropout", {"fedid", batches + ", feedback_dropout: false}", "mean", true}},
      {"written switches", {"fedid", written + "}", "mean", true}},
      {"written, new optimizers", {"fedid", written + ", new_optimizer: true}", "mean", true}},
      {"written, dropout", {"fedid", written + ", feedback_dropout: true}", "mean", true}}};
  const nlohmann::json golden = golden_rounds();
  ASSERT_EQ(golden.size(), cases.size() + 1);  // and "orders"
  for (const auto& [name, how] : cases) expect_rounds(name, how, golden);
}

/// Looks at two epochs of the round's order.
class OrderReader : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override {
    const PublicOrder order = order_of(input, {.batch_size = 8});
    epochs = {order.batch(0), order.batch(1)};
    return {};
  }
  std::vector<std::vector<std::uint32_t>> epochs;
};

// Otherwise the golden rounds of several shuffled batches mean nothing.
TEST(Distillation, ReadsThePublicSetInTheOrderOfTheGoldenRounds) {
  const nlohmann::json golden = golden_rounds();
  DistillationRounds run("fedid", three_learners());
  run.algorithm = std::make_unique<OrderReader>();
  for (int round = 0; round < 2; ++round) {
    run.step();
    const auto& read = dynamic_cast<const OrderReader&>(*run.algorithm).epochs;
    EXPECT_EQ(read,
              golden.at("orders")[static_cast<std::size_t>(round)].get<std::vector<std::vector<std::uint32_t>>>());
  }
}

// A switch that changed nothing would pass as long as both sides ignored it.
TEST(Distillation, EverySwitchOfFedIdsPresetsChangesTheResult) {
  const nlohmann::json golden = golden_rounds();
  for (const auto& [one, other] : {std::pair("published switches", "published, one optimizer"),
                                   {"published switches", "published, no dropout"},
                                   {"written switches", "written, new optimizers"},
                                   {"written switches", "written, dropout"}}) {
    for (const char* part : {"server", "clients"}) EXPECT_NE(golden[one][1][part], golden[other][1][part]) << other;
  }
  const auto client = [](const std::string& options) {
    DistillationRounds run("fedid", three_learners(), "{batch_size: 3" + options + "}");
    run.step();
    return run.own(0);
  };
  for (const char* preset : {", preset: as_published", ", preset: as_written"}) {
    const at::Tensor whole = client(preset);
    EXPECT_EQ(torch::equal(client(""), whole), std::string(preset) == ", preset: as_published") << "the default";
    for (const char* other : {", labels: ", ", feedback: "}) {
      const bool labels = std::string(other) == ", labels: ",
                 published = std::string(preset) == ", preset: as_published";
      const std::string value = labels ? (published ? "soft" : "hard") : published ? "gradient" : "difference";
      EXPECT_FALSE(torch::equal(client(preset + (other + value)), whole)) << preset << other << value;
    }
  }
}

// The slopes have the learning rate as a factor, and float16 has no numbers between 0 and 6e-8.
TEST(Distillation, FeedbackByGradientSurvivesFloat16) {
  const auto own = [](bool half, bool feedback) {
    DistillationRounds run("fedid", three_learners(),
                           std::string("{epochs: 1, preset: as_written, rate: 1, server_rate: 2e-6") +
                               (feedback ? "}" : ", feedback: none}"));
    run.change_request = [&](Request& request) {
      if (!request.body.has_tensor("slopes")) return;
      at::Tensor& slopes = request.body.tensors.at("slopes");
      EXPECT_NEAR(slopes.abs().max().item<double>(), 1, 1e-6);
      if (half) slopes = slopes.to(at::kHalf).to(at::kFloat);
      for (Message& message : request.own) message.numbers.at("feedback") *= 1e5;  // to see it in float32
    };
    run.step();
    return run.own(2);
  };
  const at::Tensor exact = own(false, true);
  EXPECT_LT((own(true, true) - exact).norm().item<double>(), 2e-3 * (own(false, false) - exact).norm().item<double>());
}

TEST(Distillation, ScoresHaveNoFeedbackByDifference) {
  DistillationRounds run("fedid", three_learners());
  run.regress();
  EXPECT_THROW(run.step(), ConfigError);
}

TEST(Distillation, RatesAreFactorsOfTheLearningRateOfOneSide) {
  for (const char* method : {"fedid", "ds_fl", "mhat", "calibrated", "fedmd", "cronus", "fedkd", "feded", "feddf"}) {
    const AlgorithmTraits traits = Algorithms::traits(method);
    struct Models {
      at::Tensor server, client;
    };
    const auto after = [&](const std::string& rates) {
      const std::string soft = std::string(method) == "mhat" ? ", labels: soft" : "";
      DistillationRounds run(method, three_learners(), "{epochs: 1" + soft + rates + "}");
      run.step();
      return Models{run.model, run.own(0)};
    };
    const Models plain = after(""), clients = after(", rate: 0.5, server_rate: 1"),
                 server = after(", server_rate: 0.5"), both = after(", rate: 0.5");
    // mhat, calibrated and fedid teach clients what the server has learned, or feed back how it did.
    const bool from_server = traits.predictions_down && !traits.personal && std::string(method) != "ds_fl";
    EXPECT_TRUE(torch::equal(clients.server, plain.server)) << method;
    EXPECT_EQ(torch::equal(server.server, plain.server), traits.personal) << method;
    EXPECT_TRUE(torch::equal(server.server, both.server)) << method << ": without server_rate it is rate";
    EXPECT_EQ(!torch::equal(clients.client, plain.client), traits.predictions_down) << method;
    EXPECT_EQ(!torch::equal(server.client, plain.client), from_server) << method;
    // Half the rate is half of the one step of gradient descent.
    if (traits.one_sum && !traits.personal) {
      const at::Tensor start = linear::World{}.beginning();
      EXPECT_TRUE(torch::allclose(2 * (server.server - start), plain.server - start, 1e-5, 1e-6)) << method;
    }
  }
}

// One step of gradient descent on a loss of the logits of the public set.
at::Tensor step_on(const linear::World& world, const at::Tensor& start,
                   const std::function<at::Tensor(const at::Tensor&)>& loss) {
  const at::Tensor w = start.view({world.classes, world.features}).detach().clone().requires_grad_(true);
  loss(torch::matmul(world.x(linear::World::kPublic, world.public_rows), w.t())).backward();
  return (w - world.learning_rate * w.grad()).detach().flatten();
}

// The model of client 0 after training on its own data.
at::Tensor trained_alone(linear::World& world, const at::Tensor& start) {
  const std::vector<ClientId> first{0};
  return world.open(first)->train(start).values[0];
}

at::Tensor public_logits(const linear::World& world, const at::Tensor& model) {
  return torch::matmul(world.x(linear::World::kPublic, world.public_rows),
                       model.view({world.classes, world.features}).t());
}

TEST(Distillation, FedEdWithOneClientAndOneEpochIsPlainDistillation) {
  DistillationRounds run("feded", {{.examples = 6, .steps = 5}}, "{epochs: 1, temperature: 2}");
  const at::Tensor start = run.world.beginning();
  const at::Tensor teacher = torch::softmax(public_logits(run.world, trained_alone(run.world, start)) / 2, -1);
  // Hinton et al. 2015: T^2 KL(p || softmax(f / T)), up to the entropy of p.
  const at::Tensor expected = step_on(run.world, start, [&](const at::Tensor& logits) {
    return -4 * (teacher * torch::log_softmax(logits / 2, -1)).sum(-1).mean();
  });
  run.step();
  EXPECT_TRUE(torch::allclose(run.model, expected, 1e-5, 1e-6));
  EXPECT_FALSE(torch::allclose(run.model, start, 1e-3, 1e-3));
}

TEST(Distillation, DsFlOfIdenticalClientsIsCrossEntropyWithTheArgmaxOfTheirLogits) {
  const std::vector<linear::Client> twins{{.examples = 6, .steps = 3},
                                          {.examples = 6, .steps = 3, .twin_of = 0},
                                          {.examples = 6, .steps = 3, .twin_of = 0}};
  for (const char* temperature : {"0.01", "0.1", "1", "5"}) {
    DistillationRounds run("ds_fl", twins, std::string("{epochs: 1, temperature: ") + temperature + "}");
    const at::Tensor start = run.world.beginning(), own = trained_alone(run.world, start);
    const at::Tensor labels = public_logits(run.world, own).argmax(-1);
    const auto cross_entropy = [&](const at::Tensor& logits) {
      return torch::nn::functional::cross_entropy(logits, labels);
    };
    run.step();
    EXPECT_TRUE(torch::allclose(run.model, step_on(run.world, start, cross_entropy), 1e-5, 1e-6)) << temperature;
    for (const ClientId client : {0U, 1U, 2U}) {
      EXPECT_TRUE(torch::allclose(run.own(client), step_on(run.world, own, cross_entropy), 1e-5, 1e-6)) << temperature;
    }
  }
}

TEST(Distillation, AClientOfFedMdThatIsDrawnLaterIsTrainedBeforeItPredicts) {
  const auto predictions_of = [](ClientId client, const std::vector<std::vector<ClientId>>& cohorts) {
    DistillationRounds run("fedmd", three_learners(), "{epochs: 1, transfer_epochs: 2}");
    at::Tensor last;
    run.change = [&](Reply& reply) {
      if (reply.client == client && reply.body.has_tensor("predictions"))
        last = reply.body.tensor("predictions").clone();
    };
    std::vector<double> losses;
    for (const std::vector<ClientId>& cohort : cohorts) losses.push_back(run.step(cohort).loss);
    return std::pair{last, losses};
  };
  const auto [first, early] = predictions_of(1, {{1}});
  const auto [later, losses] = predictions_of(1, {{0}, {0}, {0, 1}});
  EXPECT_TRUE(torch::allclose(first, later, 1e-5, 1e-6));
  EXPECT_TRUE(std::isfinite(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1])) << "nobody has trained before it predicted";
  EXPECT_TRUE(std::isfinite(losses[2]));
  // In the same batch a client that has a model keeps it: its predictions do not depend on the newcomer.
  EXPECT_TRUE(torch::equal(predictions_of(0, {{0}, {0, 1}}).first, predictions_of(0, {{0}, {0}}).first));
  EXPECT_FALSE(torch::allclose(first, predictions_of(0, {{0}}).first, 1e-3, 1e-3)) << "of different clients";
}

TEST(Distillation, WithoutFeedbackTheQuerySetIsNeitherNeededNorMeasured) {
  DistillationRounds run("fedid", three_learners(), "{feedback: none}");
  EXPECT_FALSE(run.algorithm->queries());
  const RoundResult result = run.step();
  EXPECT_FALSE(result.numbers.contains("query_loss"));
  EXPECT_FALSE(result.numbers.contains("feedback"));
  EXPECT_TRUE(DistillationRounds("fedid", three_learners()).algorithm->queries());
  EXPECT_TRUE(DistillationRounds("calibrated", three_learners()).algorithm->queries());
  EXPECT_FALSE(DistillationRounds("calibrated", three_learners(), "{query: false}").algorithm->queries());
  EXPECT_TRUE(DistillationRounds("calibrated", three_learners(), "{query: false, trust: 1}").algorithm->queries());
}

TEST(Distillation, TheServerLearnsItsQuerySetOnRequest) {
  for (const char* method : {"mhat", "ds_fl", "fedkd", "feded", "feddf"}) {
    DistillationRounds without(method, three_learners()), with(method, three_learners(), "{query: true}");
    EXPECT_FALSE(without.algorithm->queries()) << method;
    EXPECT_TRUE(with.algorithm->queries()) << method;
    EXPECT_FALSE(without.step().numbers.contains("query_loss")) << method;
    EXPECT_TRUE(std::isfinite(with.step().numbers.at("query_loss"))) << method;
    const at::Tensor then = without.world.server()->train(without.model).values[0];
    EXPECT_FALSE(torch::allclose(with.model, without.model, 1e-3, 1e-3)) << method;
    EXPECT_TRUE(torch::equal(with.model, then)) << method;
  }
}

TEST(Distillation, HardLabelsIgnoreTheTemperature) {
  const std::vector<linear::Client> same{{.examples = 6, .steps = 2}};
  DistillationRounds cold("ds_fl", same, "{temperature: 0.01}"), warm("ds_fl", same, "{temperature: 5}");
  cold.step();
  warm.step();
  EXPECT_TRUE(torch::equal(cold.model, warm.model));
  DistillationRounds soft("ds_fl", same, "{temperature: 5, labels: soft}");
  soft.step();
  EXPECT_FALSE(torch::allclose(cold.model, soft.model, 1e-3, 1e-3));
}

TEST(Distillation, WithoutFeedbackFedIdIsLocalDistillation) {
  Message body;
  body.numbers["hard"] = 1;
  const at::Tensor own = torch::tensor({{{0.1F, 2.F}, {3.F, 0.F}}}), mean = torch::tensor({{1.F, 0.F}, {2.F, 0.F}});
  body.tensors["ensemble"] = mean;
  const Targets none = fedid_targets(body, own, {0});
  EXPECT_TRUE(torch::equal(none.votes[0], torch::tensor({{1.F, 0.F}, {1.F, 0.F}})));
  // An improved server reinforces the client's own label.
  EXPECT_TRUE(torch::allclose(fedid_targets(body, own, {0.25}).votes[0], torch::tensor({{1.F, 0.25F}, {1.25F, 0.F}})));
  EXPECT_TRUE(
      torch::allclose(fedid_targets(body, own, {-0.25}).votes[0], torch::tensor({{1.F, -0.25F}, {0.75F, 0.F}})));
}

// The honest predictions of 20 clients with the same data are the same, so the median is exact.
TEST(Distillation, TheMedianOfPredictionsBearsLiarsAndTheMeanDoesNot) {
  const auto model_after = [](const std::string& aggregation, bool attacked) {
    std::vector<linear::Client> clients(20, {.examples = 9, .steps = 5, .twin_of = 0});
    DistillationRounds run("cronus", clients, "{epochs: 10}");
    run.aggregation = aggregation;
    if (attacked) {
      run.attacks.emplace().share = 0.25;
      run.attacks->attack = Choice<Attacks>("sign_flip");
      ConfigDocument::parse("{factor: 4}", "test").fill([&](ConfigVisitor& visitor) {
        run.attacks->attack.describe(visitor);
      });
    }
    for (int round = 0; round < 2; ++round) run.step();
    return run.own(0);
  };
  const at::Tensor honest = model_after("mean", false);
  EXPECT_TRUE(torch::allclose(model_after("median", true), honest, 1e-5, 1e-5));
  EXPECT_GT((model_after("mean", true) - honest).abs().max().item<double>(), 0.1);
}

}  // namespace
}  // namespace chorus::inline contract

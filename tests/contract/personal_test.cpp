// Methods with own models, on clients whose training has a closed form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/afl.h"
#include "algorithm/personal/clustered.h"
#include "algorithm/personal/ifca.h"
#include "algorithm/personal/private_part.h"
#include "core/base/error.h"
#include "core/ports/link.h"
#include "tests/contract/linear_clients.h"
#include "tests/contract/personal_clients.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::World;

struct PersonalTrial {
  World world;
  std::unique_ptr<Algorithm> algorithm;
  at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
  std::uint64_t round = 0, phase = 0;
  Traffic traffic;

  PersonalTrial(const std::string& name, std::vector<quadratic::Client> clients, const std::string& options = "{}",
                double rate = 0.1)
      : world{.clients = std::move(clients), .learning_rate = rate},
        algorithm(quadratic::make_algorithm(name, world, options)) {}

  RoundResult step(std::vector<ClientId> some = {}) {
    if (some.empty()) some = everybody();
    std::vector<Member> cohort;
    for (const ClientId id : some) cohort.push_back({id, 1});
    LocalFederation local(quadratic::federation_input(world));
    const auto mean = Aggregations::make("mean");
    RoundInput input{local, *mean, cohort, model, ++round, 10};
    input.phase = phase;
    const RoundResult result = algorithm->round(input);
    traffic = local.traffic();
    return result;
  }
  std::vector<ClientId> everybody() const {
    std::vector<ClientId> ids;
    for (ClientId id = 0; id < world.clients.size(); ++id) ids.push_back(id);
    return ids;
  }
  /// One client's own model; no state is kept.
  at::Tensor own(ClientId client) {
    const Request request = algorithm->ask_own_models(model, round, {&client, 1});
    const auto procedure = Procedures::make(request.procedure);
    const auto bench = world.open({&client, 1});
    return dynamic_cast<const OwnModels&>(*procedure).models(request, *bench)[0].clone();
  }
};

TEST(Personal, EqualsTheValuesOfAnotherImplementation) {
  const nlohmann::json golden = golden_rounds();
  const std::map<std::string, std::pair<std::string, std::string>> cases{
      {"fine_tuning", {"fine_tuning", "{passes: 2}"}},
      {"ditto", {"ditto", "{lambda: 0.5}"}},
      {"pfedme", {"pfedme", "{lambda: 2, eta: 0.05, beta: 0.8, local_rounds: 3, inner_steps: 4}"}},
      {"per_fedavg first order", {"per_fedavg", "{alpha: 0.2, hessian: first_order, local_steps: 3, adaptation: 2}"}},
      {"per_fedavg Hessian-free",
       {"per_fedavg", "{alpha: 0.2, hessian: free, delta: 0.5, local_steps: 3, adaptation: 2}"}},
      {"fedper", {"fedper", "{}"}},
      {"lg_fedavg", {"lg_fedavg", "{private: ['0']}"}},
      {"fedbn", {"fedbn", "{private: ['0']}"}},
      {"local_parts", {"local_parts", "{shared: [head]}"}},
      {"fedrep", {"fedrep", "{head_passes: 2}"}},
      {"apfl", {"apfl", "{alpha: 0.25, local_steps: 4}"}},
      {"q_fedavg", {"q_fedavg", "{q: 2}"}},
      {"afl", {"afl", "{rate: 0.1}"}}};
  ASSERT_EQ(golden.size(), cases.size() + 9);  // and clusters, EWC, LwF, replay and parts of networks
  PersonalTrial by_loss("ifca", three_unequal()), by_direction("clustered", three_unequal(), "{warm_up: 2}");
  by_loss.algorithm->restore({{"models", torch::stack({by_loss.model - 1, by_loss.model + 1})}});
  by_loss.round = 1;  // the warm-up is over
  by_direction.step();
  by_direction.step();
  for (PersonalTrial* clusters : {&by_loss, &by_direction}) {
    const auto& rounds = golden.at(clusters == &by_loss ? "ifca" : "clustered").at("models");
    for (const auto& expected : rounds) {
      clusters->step();
      const at::Tensor models = clusters->algorithm->state().at("models");
      for (std::int64_t m = 0; m < 2; ++m) {
        EXPECT_TRUE(about_equal(models[m], vector_of(expected.at(static_cast<std::size_t>(m))))) << models;
      }
    }
  }
  for (const auto& [client, cluster] : dynamic_cast<const Clustered&>(*by_direction.algorithm).members()) {
    EXPECT_EQ(cluster, golden.at("clustered").at("members").at(client));
  }
  {  // A difference of a quadratic's gradients is its Hessian.
    PersonalTrial exact("per_fedavg", three_unequal(), "{alpha: 0.2, hessian: exact, local_steps: 3, adaptation: 2}");
    for (const auto& expected : golden.at("per_fedavg Hessian-free").at("model")) {
      exact.step();
      EXPECT_TRUE(about_equal(exact.model, vector_of(expected))) << exact.model << vector_of(expected);
    }
  }
  PersonalTrial segments("ewc", three_unequal(), "{lambda: 0.1, decay: 0.5}");
  for (const auto& expected : golden.at("ewc").at("model")) {
    if (segments.round > 0 && segments.round % 2 == 0) {
      ++segments.phase;
      for (quadratic::Client& client : segments.world.clients) client.target += 1;
    }
    segments.step();
    EXPECT_TRUE(about_equal(segments.model, vector_of(expected), 1e-5)) << segments.model << vector_of(expected);
  }
  for (const auto& [name, how] : cases) {
    PersonalTrial run(how.first, three_unequal(), how.second);
    for (const auto& expected : golden.at(name).at("model")) {
      run.step();
      EXPECT_TRUE(about_equal(run.model, vector_of(expected))) << name << "\n" << run.model << vector_of(expected);
    }
    if (!Algorithms::traits(how.first).own_models) continue;
    for (ClientId k = 0; k < 3; ++k) {
      const at::Tensor expected = vector_of(golden.at(name).at("own").at(k));
      EXPECT_TRUE(about_equal(run.own(k), expected)) << name << " client " << k << "\n" << run.own(k) << expected;
    }
  }
}

TEST(Personal, LearningWithoutForgettingEqualsTheValuesOfAnotherImplementation) {
  linear::World world{
      .clients = {{.examples = 6, .steps = 2}, {.examples = 9, .steps = 5}, {.examples = 15, .steps = 9}}};
  const auto algorithm = quadratic::make_algorithm("lwf", World{}, "{weight: 0.7, temperature: 2}");
  const auto mean = Aggregations::make("mean");
  const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
  at::Tensor model = world.beginning();
  std::uint64_t round = 0;
  const nlohmann::json golden = golden_rounds();
  for (const auto& expected : golden.at("lwf").at("model")) {
    LocalFederation local(linear::federation_input(world));
    RoundInput input{local, *mean, cohort, model, ++round, 10};
    input.phase = round > 2 ? 1 : 0;  // two segments of two rounds
    algorithm->round(input);
    EXPECT_TRUE(about_equal(model, vector_of(expected), 1e-5)) << round << model << vector_of(expected);
  }
}

TEST(Personal, DittoIsLocalTrainingForLambda0AndGlobalForALargeOne) {
  PersonalTrial free("ditto", three_unequal(), "{lambda: 0}"), alone("local", three_unequal());
  for (int round = 0; round < 4; ++round) {
    free.step();
    alone.step();
  }
  for (ClientId k = 0; k < 3; ++k) EXPECT_TRUE(torch::equal(free.own(k), alone.own(k)));
  // The own model converges to a (v - b) + lambda (v - w) = 0.
  std::vector<quadratic::Client> patient = three_unequal();
  for (quadratic::Client& client : patient) client.steps = 100;
  PersonalTrial bound("ditto", patient, "{lambda: 900}", 0.001);
  const at::Tensor start = bound.model.clone();
  bound.step();
  for (ClientId k = 0; k < 3; ++k) {
    const double a = patient[k].curvature;
    EXPECT_TRUE(about_equal(bound.own(k), (a * centre_of(patient[k].target) + 900 * start) / (a + 900), 1e-5));
    EXPECT_LT((bound.own(k) - start).abs().max().item<double>(), 0.01);
  }
}

TEST(Personal, PFedMeDescendsTheMoreauEnvelope) {
  const quadratic::Client only{.curvature = 1.5, .target = 0.3, .examples = 7};
  PersonalTrial run("pfedme", {only}, "{lambda: 2, eta: 0.1, local_rounds: 1, inner_steps: 200}");
  const at::Tensor before = run.model.clone(), centre = centre_of(only.target);
  run.step();
  // grad G(w) = lambda a / (a + lambda) (w - b); the own model is where the envelope is attained.
  EXPECT_TRUE(about_equal(run.model, before - 0.1 * (2 * 1.5 / 3.5) * (before - centre), 1e-5));
  EXPECT_TRUE(about_equal(run.own(0), (1.5 * centre + 2 * before) / 3.5, 1e-5));
}

TEST(Personal, PerFedAvgFollowsTheGradientOfTheAdaptedLoss) {
  const quadratic::Client only{.curvature = 1.5, .target = 0.3, .examples = 7};
  const double alpha = 0.2;
  PersonalTrial run("per_fedavg", {only}, "{alpha: 0.2, hessian: free, delta: 0.1, local_steps: 1}");
  const at::Tensor before = run.model.to(at::kDouble), centre = centre_of(only.target).to(at::kDouble);
  run.step();
  const auto adapted_loss = [&](const at::Tensor& w) {
    const at::Tensor v = w - alpha * 1.5 * (w - centre);
    return (0.75 * (v - centre).square().sum()).item<double>();
  };
  for (std::int64_t p = 0; p < 4; ++p) {
    at::Tensor ahead = before.clone(), behind = before.clone();
    ahead[p] += 1e-5;
    behind[p] -= 1e-5;
    const double gradient = (adapted_loss(ahead) - adapted_loss(behind)) / 2e-5;
    EXPECT_NEAR((before[p] - run.model[p]).item<double>() / 0.1, gradient, 2e-5) << p;
  }
}

TEST(Personal, ApflInterpolatesBetweenGlobalAndLocal) {
  PersonalTrial global("apfl", three_unequal(), "{alpha: 0, adaptive: false, local_steps: 3}");
  PersonalTrial local("apfl", three_unequal(), "{alpha: 1, adaptive: false, local_steps: 3}");
  for (int round = 0; round < 2; ++round) {
    global.step();
    local.step();
  }
  for (ClientId k = 0; k < 3; ++k) {
    EXPECT_TRUE(torch::equal(global.own(k), global.model));
    const at::Tensor centre = centre_of(three_unequal()[k].target), start = torch::linspace(-1, 1, 4, at::kFloat);
    const double left = std::pow(1 - 0.1 * three_unequal()[k].curvature, 6);
    EXPECT_TRUE(about_equal(local.own(k), centre + left * (start - centre)));
  }
}

std::vector<quadratic::Client> two_camps() {
  std::vector<quadratic::Client> clients;
  for (int k = 0; k < 20; ++k) {
    clients.push_back({.target = (k % 3 == 0 ? 3.0 : -2.0) + 0.05 * k, .steps = 2, .examples = 5});
  }
  return clients;
}

TEST(Personal, ClusteredMethodsRecoverPlantedClusters) {
  for (const std::string name : {"ifca", "clustered"}) {
    PersonalTrial run(name, two_camps(), name == "ifca" ? "{}" : "{warm_up: 2}");
    for (int round = 0; round < 40; ++round) run.step({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    for (int k = 0; k < 14; ++k) {
      sums[k % 3 == 0 ? 0 : 1] += two_camps()[static_cast<std::size_t>(k)].target;
      counts[k % 3 == 0 ? 0 : 1] += 1;
    }
    for (ClientId k = 0; k < 20; ++k) {  // 14 to 19 never trained
      const int camp = k % 3 == 0 ? 0 : 1;
      EXPECT_TRUE(about_equal(run.own(k), centre_of(sums[camp] / counts[camp]), 2e-3))
          << name << " " << k << run.own(k);
    }
  }
}

TEST(Personal, SketchesKeepCosines) {
  torch::manual_seed(1);
  const at::Tensor a = torch::randn({20000}), b = a + 0.5 * torch::randn({20000}), c = torch::randn({20000});
  const auto cosine = [](const at::Tensor& x, const at::Tensor& y) {
    return (sketch_of(x, 1024, 3) * sketch_of(y, 1024, 3)).sum().item<double>();
  };
  EXPECT_NEAR(cosine(a, b), 1 / std::sqrt(1.25), 0.05);
  EXPECT_NEAR(cosine(a, c), 0, 0.12);
  EXPECT_EQ(join_by_cosine(torch::tensor({{1.F, 0.F}, {-1.F, 0.F}, {0.9F, 0.1F}}), 2),
            (std::vector<std::int64_t>{0, 1, 0}));
}

TEST(Personal, FairMethodsHelpTheWorstClient) {
  std::vector<quadratic::Client> clients;
  for (int k = 0; k < 10; ++k) clients.push_back({.target = k == 9 ? 2.0 : 0.0, .steps = 2, .examples = 10});
  const auto worst = [&](const std::string& name, const std::string& options) {
    PersonalTrial run(name, clients, options);
    for (int round = 0; round < 150; ++round) run.step();
    return (run.model - centre_of(2)).abs().max().item<double>();
  };
  const double plain = worst("fedavg", "{}");
  EXPECT_NEAR(plain, 1.8, 1e-3);
  EXPECT_NEAR(worst("q_fedavg", "{q: 0}"), plain, 1e-3);
  EXPECT_NEAR(worst("q_fedavg", "{q: 5}"), 1.1011, 1e-3);  // with numpy
  EXPECT_NEAR(worst("afl", "{rate: 0.02}"), 1, 0.01);      // half way: no client is worse off than the worst
  EXPECT_EQ(on_simplex({2, 0, 0}), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(on_simplex({0.5, 0.5, 0.5, 0.5}), (std::vector<double>(4, 0.25)));
}

TEST(Personal, OnlySharedElementsTravel) {
  PersonalTrial whole("fedavg", three_unequal()), part("fedper", three_unequal());
  whole.world.parameters = part.world.parameters = 4000;
  whole.model = part.model = torch::zeros({4000});
  part.algorithm = quadratic::make_algorithm("fedper", part.world);
  whole.step();
  part.step();
  EXPECT_NEAR(static_cast<double>(part.traffic.up) / static_cast<double>(whole.traffic.up), 0.5, 0.01);
  EXPECT_NEAR(static_cast<double>(part.traffic.down) / static_cast<double>(whole.traffic.down), 0.5, 0.01);
}

Layout network() {
  Layout layout;
  layout.begin_layer(kEmbeddingLayer);
  layout.add("bert.embeddings.word_embeddings.weight", {10, 4}, Init::zeros());
  layout.add("bert.embeddings.LayerNorm.weight", {4}, Init::zeros());
  for (int k = 0; k < 3; ++k) {
    layout.begin_layer(k);
    const std::string name = "bert.encoder.layer." + std::to_string(k) + ".dense";
    layout.add(name + ".weight", {4, 4}, Init::zeros());
    layout.add(name + ".bias", {4}, Init::zeros());
    layout.attach(name + ".lora_B.weight", {4, 2}, Init::zeros());
  }
  layout.begin_layer(kHeadLayer);
  layout.add("classifier.weight", {2, 4}, Init::zeros());
  return layout;
}

TEST(Personal, PartsAreNamedByLayerTuningOrPattern) {
  const Layout layout = network();
  const auto own = [&](const char* word) { return PrivatePart({{word}, {}}, layout).private_size(); };
  EXPECT_EQ(own("head"), 8);
  EXPECT_EQ(own("classifier"), 8);
  EXPECT_EQ(own("embeddings"), 44);
  EXPECT_EQ(own("norms"), 4);
  EXPECT_EQ(own("biases"), 12);
  EXPECT_EQ(own("attached"), 24);
  EXPECT_EQ(own("*lora_B*"), 24);
  EXPECT_EQ(own("1"), 28);
  EXPECT_EQ(own("0-1"), 56);
  EXPECT_EQ(own("layers"), 84);
  EXPECT_EQ(own("layer.2.dense"), 28);
  EXPECT_EQ(PrivatePart({{}, {"head"}}, layout).shared_size(), 8);
  const PrivatePart part({{"embeddings", "biases"}, {}}, layout);
  EXPECT_EQ(part.shared_size() + part.private_size(), layout.trainable_size());
  const at::Tensor whole = torch::arange(layout.trainable_size(), at::kFloat).unsqueeze(0).repeat({3, 1});
  EXPECT_TRUE(torch::equal(part.join(part.shared_of(whole), part.private_of(whole)), whole));
  EXPECT_TRUE(torch::equal(part.join(part.shared_of(whole[0]), part.private_of(whole)), whole));
  for (const char* word : {"heads", "7", "2-9x", "*query*", "", "bert.pooler"}) {
    EXPECT_THROW(own(word), ConfigError) << word;
  }
  EXPECT_THROW(PrivatePart({{"*"}, {}}, layout), ConfigError);  // nothing would be shared
  EXPECT_THROW(PrivatePart({{}, {"*"}}, layout), ConfigError);
  Message body;
  body.texts = {{"private", "head\n"}, {"shared", ""}};
  EXPECT_EQ(read_parts(body, layout).private_size(), 8);
  body.texts["private"] = "nonsense\n";
  EXPECT_THROW(read_parts(body, layout), DataError);
}

TEST(Personal, AStateOfAnotherNetworkFailsItsClientOnly) {
  for (const auto& [name, key] : std::map<std::string, std::string>{{"ditto", "ditto.model"},
                                                                    {"fedper", "parts.private"},
                                                                    {"apfl", "apfl.model"},
                                                                    {"fedrep", "parts.private"},
                                                                    {"fedbn", "parts.private"},
                                                                    {"lg_fedavg", "parts.private"},
                                                                    {"local", "local.model"},
                                                                    {"ewc", "ewc.values"},
                                                                    {"lwf", "lwf.values"}}) {
    PersonalTrial run(name, three_unequal());
    run.step();
    run.world.states.at(1).at(key) = torch::zeros({7});
    ++run.phase;  // what is kept of a segment counts in the next one
    const RoundResult result = run.step();
    ASSERT_EQ(result.failed.size(), 1U) << name;
    EXPECT_EQ(result.failed[0].first, 1U);
    EXPECT_THAT(result.failed[0].second, testing::HasSubstr("another network")) << name;
  }
}

TEST(Personal, AnOwnModelOfAnotherNetworkIsNotScored) {
  for (const auto& [name, key] : std::map<std::string, std::string>{
           {"ditto", "ditto.model"}, {"pfedme", "pfedme.model"}, {"apfl", "apfl.model"}}) {
    PersonalTrial run(name, three_unequal());
    run.step();
    run.world.states.at(2).at(key) = torch::zeros({7});
    EXPECT_TRUE(torch::isfinite(run.own(1)).all().item<bool>());
    EXPECT_THROW(run.own(2), DataError) << name;
  }
}

// Every method with own models: what a client keeps decides its own model, and newcomers get a finite one.
TEST(Personal, OwnModelsFollowFromStateAndNewcomersHaveOne) {
  for (const std::string& name : Algorithms::names()) {
    if (!Algorithms::traits(name).own_models || Algorithms::traits(name).distills) continue;  // no public set here
    PersonalTrial run(name, two_camps()), again(name, two_camps());
    for (int round = 0; round < 3; ++round) run.step({0, 1, 2, 3});
    again.algorithm->restore(run.algorithm->state());
    again.world.states = run.world.states;
    again.model = run.model.clone();
    again.round = run.round;
    for (const ClientId client : {0U, 3U, 19U}) {
      EXPECT_TRUE(torch::equal(run.own(client), again.own(client))) << name;
      EXPECT_TRUE(torch::isfinite(run.own(client)).all().item<bool>()) << name;
    }
    EXPECT_TRUE(run.world.states.find(19) == run.world.states.end()) << name << " kept something while it measured";
  }
}

}  // namespace
}  // namespace chorus::inline contract

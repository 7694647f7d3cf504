// FedBuff on the emulated clock, with clients whose training has a closed form.
#include "algorithm/federated/fedbuff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <numeric>

#include "core/config/config.h"
#include "infrastructure/emulation/emulated_federation.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;

/// Clients on identical devices: a client with n steps takes n * 1.7 s, and almost no time for its few bytes.
struct Devices {
  explicit Devices(std::vector<Client> clients, const std::string& emulation = "{}")
      : world{.clients = std::move(clients)},
        fleet(ConfigDocument::parse(emulation, "test").load<EmulationConfig>(), 11) {}

  RoundResult step(Algorithm& algorithm, std::vector<ClientId> order) {
    std::vector<Member> cohort;
    for (const ClientId id : order) cohort.push_back({id, 1});
    LocalFederation local(quadratic::federation_input(world));
    EmulatedFederation federation({.inner = local, .fleet = fleet, .batches = [this](ClientId id) {
                                     return static_cast<double>(world.clients[id].steps);
                                   }});
    const auto mean = Aggregations::make("mean");
    RoundInput input{federation, *mean, cohort, model, ++round, 10, seed};
    input.weighting = Weighting::kEqual;
    return algorithm.round(input);
  }

  quadratic::World world;
  Fleet fleet;
  at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
  std::uint64_t round = 0, seed = 0;
};

// A client's update of a model.
at::Tensor update_of(const Client& client, const at::Tensor& model) {
  const at::Tensor centre = torch::arange(4, at::kFloat) / 10 + client.target;
  return (centre - model) * (1 - std::pow(1 - 0.1 * client.curvature, client.steps));
}

const std::vector<Client> kThree{{.curvature = 0.5, .target = -1.0, .steps = 1, .examples = 10},
                                 {.curvature = 1.0, .target = 0.5, .steps = 3, .examples = 20},
                                 {.curvature = 2.0, .target = 2.0, .steps = 5, .examples = 70}};

TEST(FedBuff, OneAtATimeIsFedAvg) {
  Devices first(kThree), second(kThree);
  FedBuff fedbuff({.buffer = 1, .concurrency = 1});
  const auto fedavg = Algorithms::make("fedavg");
  for (const ClientId client : {0U, 2U, 1U, 1U, 0U}) {
    first.step(fedbuff, {client});
    second.step(*fedavg, {client});
    EXPECT_TRUE(torch::equal(first.model, second.model));
  }
}

TEST(FedBuff, UpdatesAreWeightedByStalenessInOrderOfArrival) {
  Devices devices(kThree);
  FedBuff fedbuff({.buffer = 1, .concurrency = 3});
  // All start at 0. Client 0 finishes at 1.7, restarts, finishes at 3.4, and so on; client 1 finishes at 5.1, a few
  // bytes before client 0's third time; client 2 does not reply before 8.5.
  const at::Tensor w0 = devices.model.clone();
  const at::Tensor w1 = w0 + update_of(kThree[0], w0);
  const at::Tensor w2 = w1 + update_of(kThree[0], w1);
  const at::Tensor w3 = w2 + update_of(kThree[1], w0) / std::sqrt(3.0);  // two steps old
  const at::Tensor w4 = w3 + update_of(kThree[0], w2) / std::sqrt(2.0);
  double clock = 0;
  const std::pair<at::Tensor, double> expected[] = {{w1, 1.7}, {w2, 3.4}, {w3, 5.1}, {w4, 5.1}};
  const double ages[] = {0, 0, 2, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    const RoundResult result = devices.step(fedbuff, {0, 1, 2});
    clock += result.emulated.totals.seconds;
    EXPECT_NEAR(clock, expected[i].second, 0.01) << i;
    EXPECT_EQ(result.numbers.at("staleness"), ages[i]) << i;
    EXPECT_TRUE(torch::allclose(devices.model, expected[i].first, 1e-5, 1e-6))
        << i << devices.model << expected[i].first;
  }
}

TEST(FedBuff, AReplacementWithinARoundStartsFromTheOldModel) {
  // Equal clients and K = 2 of M = 2: two start at 0 and finish at 1.7. The first is replaced then, starting from w0,
  // the second after the step, starting from w1: both arrive at 3.4, one of them one step old.
  const std::vector<Client> same(4, Client{.curvature = 1, .target = 1, .steps = 1, .examples = 1});
  Devices devices(same);
  FedBuff fedbuff({.buffer = 2, .concurrency = 2});
  const at::Tensor w0 = devices.model.clone(), w1 = w0 + update_of(same[0], w0);
  RoundResult result = devices.step(fedbuff, {0, 1, 2, 3});
  EXPECT_TRUE(torch::allclose(devices.model, w1, 1e-6, 1e-6));
  EXPECT_EQ(result.numbers.at("in_flight"), 1);
  result = devices.step(fedbuff, {0, 1, 2, 3});
  EXPECT_EQ(result.numbers.at("staleness"), 0.5);
  EXPECT_NEAR(result.emulated.totals.seconds, 1.7, 0.01);
  const at::Tensor w2 = w1 + (update_of(same[0], w0) / std::sqrt(2.0) + update_of(same[0], w1)) / 2;
  EXPECT_TRUE(torch::allclose(devices.model, w2, 1e-6, 1e-6));
}

std::vector<Client> many() {
  std::vector<Client> clients;
  for (int k = 0; k < 30; ++k) {
    clients.push_back({.curvature = 0.1 * k + 0.3, .target = k * 0.3 - 3, .steps = 1 + k % 7, .examples = 1.0 + k % 5});
  }
  clients[13].broken = true;
  return clients;
}

std::vector<ClientId> cohort_of(std::uint64_t round) {
  std::vector<ClientId> cohort;
  for (ClientId i = 0; i < 11; ++i) cohort.push_back(static_cast<ClientId>((round * 5 + i * 7) % 30));
  return cohort;
}

TEST(FedBuff, ResumesBitIdenticallyWithRepliesUnderWay) {
  constexpr const char* kHard = "{fleet: [{profile: jetson_tx2}, {profile: jetson_nano}], dropout: 0.2}";
  const FedBuffConfig config{.buffer = 3, .concurrency = 6};
  Devices whole(many(), kHard);
  FedBuff always(config);
  std::vector<at::Tensor> models;
  std::vector<double> seconds;
  std::vector<std::size_t> failed;
  double oldest = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    const RoundResult result = whole.step(always, cohort_of(round));
    models.push_back(whole.model.clone());
    seconds.push_back(result.emulated.totals.seconds);
    failed.push_back(result.failed.size());
    oldest = std::max(oldest, result.numbers.at("staleness"));
    EXPECT_GE(result.emulated.totals.seconds, 0);
    EXPECT_LE(result.numbers.at("in_flight"), 6);
  }
  EXPECT_GT(oldest, 1);
  EXPECT_GT(std::accumulate(failed.begin(), failed.end(), 0U), 2U);
  // A new process every round.
  Devices again(many(), kHard);
  std::map<std::string, at::Tensor> saved;
  for (std::uint64_t round = 0; round < 12; ++round) {
    FedBuff reborn(config);
    reborn.restore(saved);
    const RoundResult result = again.step(reborn, cohort_of(round));
    EXPECT_TRUE(torch::equal(again.model, models[round])) << round;
    EXPECT_EQ(result.emulated.totals.seconds, seconds[round]);
    EXPECT_EQ(result.failed.size(), failed[round]);
    saved.clear();
    for (const auto& [name, tensor] : reborn.state()) saved[name] = tensor.clone();
  }
  saved.erase("updates");
  EXPECT_THROW(FedBuff(config).restore(saved), DataError);
}

TEST(FedBuff, IsFasterThanWaitingForTheSlowest) {
  Devices waiting(many()), going(many());
  FedBuff fedbuff({.buffer = 5, .concurrency = 6});
  const auto fedavg = Algorithms::make("fedavg");
  double waited = 0, went = 0;
  for (std::uint64_t round = 0; round < 10; ++round) {
    std::vector<ClientId> cohort = cohort_of(round);
    went += going.step(fedbuff, cohort).emulated.totals.seconds;
    cohort.resize(5);
    waited += waiting.step(*fedavg, cohort).emulated.totals.seconds;
  }
  EXPECT_LT(went, 0.8 * waited);
}

}  // namespace
}  // namespace chorus::inline contract

// Secure sums as aggregations: clients in this process, and a server and clients that exchange bytes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <set>

#include "algorithm/federated/fedbuff.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/ports/algorithm.h"
#include "core/ports/forwarding_federation.h"
#include "core/ports/link.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;
using quadratic::World;
using testing::HasSubstr;

constexpr std::int64_t kParameters = 40;

std::vector<Client> eight_clients() {
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back({.curvature = 0.2 + 0.1 * i, .target = 0.3 * i - 1, .steps = 1 + i % 3, .examples = 5.0 + 7 * i});
  }
  return clients;
}

/// Sees everything that a server sees, and may show clients something else than it was told to.
class Watched : public ForwardingFederation {
 public:
  using ForwardingFederation::ForwardingFederation;
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    if (tamper) tamper(request);
    ++asks;
    const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
    return Replies([this, replies] {
      std::optional<Reply> reply = replies->next();
      if (reply && reply->ok()) {
        bytes_up[reply->client] += static_cast<double>(reply->body.bytes());
        for (const auto& entry : reply->body.tensors) seen.insert(entry.first);
        for (const auto& [name, value] : reply->body.numbers) seen.insert(name + "=" + std::to_string(value));
        for (const auto& entry : reply->body.texts) seen.insert(entry.first);
      }
      return reply;
    });
  }

  std::function<void(Request&)> tamper;
  int asks = 0;
  std::map<ClientId, double> bytes_up;
  std::set<std::string> seen;
};

std::unique_ptr<Aggregation> aggregation_of(const std::string& name, const std::string& options) {
  Choice<Aggregations> choice(name);
  ConfigDocument::parse(options, "test").fill([&](ConfigVisitor& visitor) { choice.describe(visitor); });
  return choice.make();
}

struct SecureTrial {
  static inline bool linked = false;
  World world{.clients = eight_clients(), .parameters = kParameters};
  std::unique_ptr<Algorithm> algorithm;
  std::unique_ptr<Aggregation> aggregation;
  at::Tensor model = torch::linspace(-1, 1, kParameters, at::kFloat);
  std::uint64_t round = 0, seed = 5;
  Weighting weighting = Weighting::kExamples;
  std::function<void(Request&)> tamper;
  int asks = 0;
  std::map<ClientId, double> bytes_up;
  std::set<std::string> seen;
  bool states_sizes = true;
  std::map<ClientId, std::optional<double>> introduced;  // examples, as the server knows them

  SecureTrial(const std::string& method, const std::string& name, const std::string& options = "{clip: 4}")
      : algorithm(Algorithms::make(method)), aggregation(aggregation_of(name, options)) {}

  void shrink(std::int64_t parameters) {
    world.parameters = parameters;
    model = torch::linspace(-1, 1, parameters, at::kFloat);
  }

  RoundResult step() {
    std::vector<Member> cohort;
    for (ClientId id = 0; id < world.clients.size(); ++id) cohort.push_back({id, 1});
    LocalFederation local(quadratic::federation_input(world, 3, 2));
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> link;
    if (linked) {
      transport = Transports::make("inproc");
      LinkInput input{*transport, local};
      input.states_sizes = states_sizes;
      link = LinkedFederations::make("wire", input);
      for (const RosterEntry& entry : link->roster().members()) introduced[entry.id] = entry.examples;
    }
    Watched watched(link ? static_cast<Federation&>(*link) : local);
    watched.tamper = tamper;
    RoundInput input{watched, *aggregation, cohort, model, ++round, 10, seed, weighting};
    RoundResult result = algorithm->round(input);
    asks = watched.asks;
    bytes_up = watched.bytes_up;
    seen = watched.seen;
    return result;
  }
};

class SecureContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !quadratic::has_wire()) GTEST_SKIP() << "built without the wire format";
    SecureTrial::linked = GetParam();
    set_log_level(LogLevel::kError);
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};
INSTANTIATE_TEST_SUITE_P(Clients, SecureContract, testing::Values(false, true),
                         [](const auto& chosen) { return chosen.param ? "Linked" : "Local"; });

constexpr const char* kProtocols[] = {"secagg", "secagg_plus", "light_secagg"};

TEST_P(SecureContract, EqualsTheMeanUpToRoundingAndTheModelledSumExactly) {
  for (const char* protocol : kProtocols) {
    for (const char* method : {"fedavg", "fedprox", "fedopt", "fedsgd"}) {
      SecureTrial plain(method, "mean", "{}"), secure(method, protocol, "{clip: 4, bits: 20}"),
          modelled(method, protocol, "{clip: 4, bits: 20, mode: cost}");
      // Few parameters, so that no loss of a quadratic reaches the bound of a masked one (32).
      for (SecureTrial* trial : {&plain, &secure, &modelled}) trial->shrink(10);
      for (int round = 0; round < 2; ++round) {
        const RoundResult expected = plain.step(), real = secure.step();
        modelled.step();
        EXPECT_TRUE(real.failed.empty());
        EXPECT_EQ(secure.asks, 4);
        EXPECT_DOUBLE_EQ(real.examples, expected.examples);
        EXPECT_DOUBLE_EQ(real.steps, expected.steps);
        EXPECT_NEAR(real.loss, expected.loss, 2e-4) << method;  // in steps of 1.2e-4, rounded at random
      }
      EXPECT_LT((plain.model - secure.model).abs().max().item<double>(), 1e-4) << protocol << " " << method;
      EXPECT_TRUE(torch::equal(secure.model, modelled.model)) << protocol << " " << method;
    }
  }
}

TEST_P(SecureContract, SeveralTensorsAreSummedAndStatesAreKeptWithTheSum) {
  SecureTrial plain("scaffold", "mean", "{}"), secure("scaffold", "secagg", "{clip: 8, bits: 24}");
  for (int round = 0; round < 3; ++round) {
    plain.step();
    secure.step();
  }
  EXPECT_LT((plain.model - secure.model).abs().max().item<double>(), 1e-4);
  EXPECT_EQ(secure.world.states.size(), 8U);

  // Nobody keeps a state from a sum that was abandoned.
  SecureTrial lost("scaffold", "secagg", "{clip: 8, least_clients: 8, vanish: 0.9}");
  lost.step();
  EXPECT_TRUE(lost.world.states.empty());
}

// FedBuff's clients hold their updates until K of them are summed; old ones count less.
TEST_P(SecureContract, BufferedUpdatesAreSummedUnseen) {
  for (const char* protocol : kProtocols) {
    const FedBuffConfig config{.buffer = 4, .concurrency = 6};
    SecureTrial plain("fedbuff", "mean", "{}"), secure("fedbuff", protocol, "{clip: 4, bits: 20}"),
        modelled("fedbuff", protocol, "{clip: 4, bits: 20, mode: cost}");
    for (SecureTrial* trial : {&plain, &secure, &modelled}) {
      trial->shrink(10);
      trial->algorithm = std::make_unique<FedBuff>(config);
    }
    double staleness = 0;
    for (int round = 0; round < 4; ++round) {
      const RoundResult expected = plain.step(), real = secure.step();
      modelled.step();
      EXPECT_TRUE(real.failed.empty()) << protocol;
      EXPECT_DOUBLE_EQ(real.examples, expected.examples);
      EXPECT_EQ(real.numbers.at("staleness"), expected.numbers.at("staleness"));
      staleness += real.numbers.at("staleness");
      EXPECT_EQ(secure.seen, (std::set<std::string>{"secure.message", "batches=0.000000"})) << protocol;
      // A checkpoint in between changes nothing.
      auto resumed = std::make_unique<FedBuff>(config);
      resumed->restore(secure.algorithm->state());
      secure.algorithm = std::move(resumed);
    }
    EXPECT_GT(staleness, 0);
    EXPECT_LT((plain.model - secure.model).abs().max().item<double>(), 1e-4) << protocol;
    EXPECT_TRUE(torch::equal(secure.model, modelled.model)) << protocol;
  }
}

// 1.6, mistake 16; 0.6: replies carry protocol messages and nothing else. Neither do introductions: with weights by
// examples the sum is the same when no client has said how many it has.
TEST_P(SecureContract, Mistake16NothingTravelsInTheClear) {
  for (const char* protocol : kProtocols) {
    SecureTrial stated("fedavg", protocol), secure("fedavg", protocol);
    secure.states_sizes = false;
    stated.step();
    secure.step();
    EXPECT_EQ(secure.seen, (std::set<std::string>{"secure.message", "batches=0.000000"})) << protocol;
    EXPECT_TRUE(torch::equal(secure.model, stated.model)) << protocol;
    if (!SecureTrial::linked) continue;
    EXPECT_EQ(stated.introduced.at(3), 26);
    ASSERT_EQ(secure.introduced.size(), 8U);
    for (const auto& [client, examples] : secure.introduced) EXPECT_FALSE(examples.has_value()) << client;
  }
}

TEST_P(SecureContract, AgainstAnActiveServerTheSumIsTheSame) {
  for (const char* protocol : {"secagg", "secagg_plus"}) {
    SecureTrial honest("fedavg", protocol), active("fedavg", protocol, "{clip: 4, server: active}");
    for (int round = 0; round < 2; ++round) {
      honest.step();
      EXPECT_TRUE(active.step().failed.empty());
      EXPECT_EQ(active.asks, 6);
    }
    EXPECT_TRUE(torch::equal(honest.model, active.model));
  }
}

// 4c, case 8: a server that puts its own key in the place of a client's is refused by those who know the client.
TEST_P(SecureContract, Case8ASubstitutedIdentityIsRefused) {
  SecureTrial active("fedavg", "secagg", "{clip: 4, server: active}");
  EXPECT_TRUE(active.step().failed.empty());
  const at::Tensor before = active.model.clone();
  active.tamper = [](Request& request) {
    if (!request.body.has_tensor("secure.identities")) return;
    at::Tensor keys = request.body.tensor("secure.identities").clone();
    keys[3 * 68 + 4] = keys[3 * 68 + 4].item<int>() ^ 1;  // length, key and configuration of each
    request.body.tensors["secure.identities"] = keys;
  };
  const RoundResult result = active.step();
  EXPECT_EQ(result.failed.size(), 8U);
  EXPECT_THAT(result.failed[0].second, HasSubstr("another identity"));
  EXPECT_TRUE(torch::equal(active.model, before));
}

TEST_P(SecureContract, UploadsStayWithinTheBound) {
  SecureTrial secure("fedavg", "secagg");
  secure.world.parameters = 5000;
  secure.model = torch::zeros({5000});
  secure.step();
  for (const auto& [client, bytes] : secure.bytes_up) EXPECT_LE(bytes, 5000 * 4 + 130 * 7 + 2048) << client;
}

// Everybody who vanishes, in every step: the sum over the others, or none.
TEST_P(SecureContract, DropoutsLeaveTheSumOfTheOthersOrTheModel) {
  int done = 0, abandoned = 0;
  for (const char* protocol : kProtocols) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SecureTrial secure("fedavg", protocol, "{clip: 4, vanish: 0.3}"),
          modelled("fedavg", protocol, "{clip: 4, vanish: 0.3, mode: cost}");
      secure.seed = modelled.seed = seed;
      const at::Tensor before = secure.model.clone();
      const RoundResult result = secure.step(), expected = modelled.step();
      EXPECT_TRUE(torch::equal(secure.model, modelled.model)) << protocol << " " << seed;
      EXPECT_EQ(result.failed.size(), expected.failed.size()) << protocol << " " << seed;
      const bool lost = result.failed.size() == 8;
      EXPECT_EQ(lost, torch::equal(secure.model, before));
      lost ? ++abandoned : ++done;
    }
  }
  EXPECT_GT(done, 20);
  EXPECT_GT(abandoned, 0);
}

TEST_P(SecureContract, AClientThatFailsIsLeftOut) {
  for (const char* protocol : kProtocols) {
    SecureTrial secure("fedavg", protocol);
    secure.world.clients[3].broken = true;
    const RoundResult result = secure.step();
    ASSERT_EQ(result.failed.size(), 1U);
    EXPECT_EQ(result.failed[0].first, 3U);
    EXPECT_THAT(result.failed[0].second, HasSubstr("not a number"));
    EXPECT_FALSE(torch::equal(secure.model, torch::linspace(-1, 1, kParameters, at::kFloat)));
  }
}

// 0.6: a server that shows a client another model than it says gets nothing.
TEST_P(SecureContract, ClientsThatWereGivenAnotherModelGiveNoSum) {
  for (const char* protocol : kProtocols) {
    SecureTrial secure("fedavg", protocol);
    const at::Tensor before = secure.model.clone();
    secure.tamper = [](Request& request) {
      if (request.body.has_tensor("model")) request.body.tensors["model"] = request.body.tensor("model") + 1e-6;
    };
    const RoundResult result = secure.step();
    EXPECT_EQ(result.failed.size(), 8U);
    EXPECT_TRUE(torch::equal(secure.model, before));
  }
}

// 1.6, mistakes 3 and 15: a client derives thresholds itself and accepts no weaker ones.
TEST_P(SecureContract, Mistake3And15ClientsRefuseWeakPlans) {
  const std::vector<std::pair<const char*, double>> lies{{"secure.corrupt", 0},  {"secure.least", 1},
                                                         {"secure.clients", 2},  {"secure.bits", 40},
                                                         {"secure.protocol", 7}, {"secure.size", 3}};
  for (const auto& lie : lies) {
    SecureTrial secure("fedavg", "secagg_plus");
    const at::Tensor before = secure.model.clone();
    secure.tamper = [&](Request& request) {
      if (request.procedure == "secure/begin") request.body.numbers[lie.first] = lie.second;
    };
    EXPECT_EQ(secure.step().failed.size(), 8U) << lie.first;
    EXPECT_TRUE(torch::equal(secure.model, before));
  }
}

// A cohort whose size bears no sum of these terms, as Poisson sampling draws some, loses its round and not the run.
TEST_P(SecureContract, ACohortThatBearsNoSumLosesItsRoundOnly) {
  for (const std::string mode : {"real", "cost"}) {
    SecureTrial secure("fedavg", "secagg_plus", "{clip: 4, server: active, dropout: 0.3, mode: " + mode + "}");
    secure.world.clients.resize(7);
    const at::Tensor before = secure.model.clone();
    const RoundResult lost = secure.step();
    ASSERT_EQ(lost.failed.size(), 7U);
    EXPECT_THAT(lost.failed[0].second, HasSubstr("the secure sum was abandoned: secagg_plus: of 7 clients"));
    EXPECT_EQ(secure.asks, 0);
    EXPECT_TRUE(torch::equal(secure.model, before));
    secure.world.clients = eight_clients();
    EXPECT_TRUE(secure.step().failed.empty()) << mode;
    EXPECT_FALSE(torch::equal(secure.model, before));

    // Of groups that do not have the same size, one loses its sum.
    SecureTrial groups("fedavg", "secure_groups",
                       "{groups: 2, rule: mean, sum: {name: secagg_plus, dropout: 0.4, clip: 4, mode: " + mode + "}}");
    groups.world.clients.push_back(groups.world.clients.front());
    const RoundResult smaller = groups.step();
    EXPECT_EQ(smaller.failed.size(), 5U) << mode;
    EXPECT_EQ(smaller.numbers.at("secure_groups"), 1);
    EXPECT_FALSE(torch::equal(groups.model, before));
  }
}

TEST_P(SecureContract, TooFewClientsAreNotAsked) {
  SecureTrial secure("fedavg", "secagg", "{least_clients: 9}");
  EXPECT_EQ(secure.step().failed.size(), 8U);
  EXPECT_EQ(secure.asks, 0);
}

// Attackers in one group do not move the median of the groups; without groups one of them does. Groups of three, and
// three groups of which some have one client more.
TEST_P(SecureContract, RobustOverGroupsBearsASpoiledGroup) {
  for (const std::string protocol : kProtocols) {
    for (const std::size_t clients : {9U, 10U, 11U}) {
      const std::string what = fmt::format("{}, {} clients", protocol, clients);
      const std::string sum = fmt::format("{{name: {}, clip: 16, bits: 20}}", protocol);
      const std::string groups = "{groups: 3, sum: " + sum + ", rule: median}";
      SecureTrial secure("fedavg", "secure_groups", groups), honest("fedavg", "secure_groups", groups),
          modelled(
              "fedavg", "secure_groups",
              fmt::format("{{groups: 3, sum: {{name: {}, clip: 16, bits: 20, mode: cost}}, rule: median}}", protocol)),
          plain("fedavg", protocol, "{clip: 16, bits: 20}");
      for (SecureTrial* trial : {&secure, &honest, &modelled, &plain}) {
        while (trial->world.clients.size() < clients) trial->world.clients.push_back(trial->world.clients.front());
        trial->weighting = Weighting::kEqual;
      }
      EXPECT_EQ(secure.aggregation->refusal(clients, Weighting::kEqual), "") << what;
      honest.step();
      for (SecureTrial* trial : {&secure, &modelled, &plain}) trial->world.clients[4].target = 80;  // pulls far away
      const RoundResult result = secure.step();
      modelled.step();
      plain.step();
      EXPECT_TRUE(result.failed.empty()) << what;
      EXPECT_EQ(result.numbers.at("secure_groups"), 3) << what;
      EXPECT_EQ(secure.seen, (std::set<std::string>{"secure.message", "batches=0.000000"})) << what;
      EXPECT_TRUE(torch::equal(secure.model, modelled.model)) << what;
      const auto away = [&](const SecureTrial& trial) {
        return (trial.model - honest.model).abs().max().item<double>();
      };
      EXPECT_LT(away(secure), 0.3) << what;
      EXPECT_GT(away(plain), 0.7) << what;
    }
  }
}

// 1.6, mistake 13: keys, shares and masks as text are long runs of hexadecimal or base64 digits, or lists of numbers.
TEST_P(SecureContract, Mistake13NoLogLevelShowsWhatIsSecret) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    set_log_level(level);
    testing::internal::CaptureStderr();
    for (const char* protocol : kProtocols) {
      SecureTrial secure("fedavg", protocol, "{clip: 4, vanish: 0.3}");
      AggregationSetting setting;
      setting.clients = setting.clients_per_round = 8;
      secure.aggregation->prepare(setting);
      for (int round = 0; round < 3; ++round) secure.step();
    }
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("semi-honest server") != std::string::npos, level <= LogLevel::kInfo);
    std::size_t digits = 0, letters = 0;
    for (const char c : log) {
      const auto byte = static_cast<unsigned char>(c);
      digits = std::isxdigit(byte) != 0 ? digits + 1 : 0;
      letters = std::isalnum(byte) != 0 || c == '+' || c == '/' || c == '=' ? letters + 1 : 0;
      ASSERT_LT(digits, 16U) << log;
      ASSERT_LT(letters, 22U) << log;  // 16 bytes in base64
    }
    EXPECT_EQ(log.find(", 0x"), std::string::npos);
  }
}

}  // namespace
}  // namespace chorus::inline contract

// Filters between an algorithm and its clients change the wire, not the algorithm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "algorithm/compression/filtered_federation.h"
#include "core/config/config.h"
#include "core/ports/algorithm.h"
#include "core/ports/forwarding_federation.h"
#include "core/ports/link.h"
#include "infrastructure/transport/wire/wire.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;
using quadratic::World;
using testing::HasSubstr;

constexpr std::int64_t kParameters = 2048;

std::vector<Client> five_clients() {
  std::vector<Client> clients;
  for (int k = 0; k < 5; ++k) {
    clients.push_back({.curvature = 0.2 + 0.1 * k, .target = k - 2.0, .steps = 1 + k % 3, .examples = 10.0 + k});
  }
  return clients;
}

/// Takes the place of the network: measures the traffic and may damage it.
class Wiretap : public ForwardingFederation {
 public:
  using ForwardingFederation::ForwardingFederation;
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    if (damage_request) damage_request(request);
    CohortFrame members{1, {}};
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) members.members.push_back({cohort[slot], slot, {}});
    const std::uint64_t size =
        encode_frame(RequestFrame{1, request}).size() + encode_frame(members).size() / cohort.size();
    const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
    return Replies([this, replies, size]() -> std::optional<Reply> {
      auto reply = replies->next();
      if (!reply) return reply;
      seen.down += size;
      seen.up += encode_frame(ReplyFrame{1, *reply, reply->on_accept != nullptr}).size();
      if (damage_reply) damage_reply(*reply);
      return reply;
    });
  }

  Traffic seen;
  std::function<void(Request&)> damage_request;
  std::function<void(Reply&)> damage_reply;
};

struct CompressedTrial {
  World world{.clients = five_clients(), .parameters = kParameters};
  std::unique_ptr<Algorithm> algorithm;
  FilterEndInput input;
  at::Tensor model = torch::zeros({kParameters});
  std::size_t workers = 1, cohort_batch = 2;
  bool wire = false;
  std::uint64_t round = 0;
  ClientState server = {};
  Traffic seen, reported;
  std::map<std::string, double> numbers;
  std::function<void(Request&)> damage_request;
  std::function<void(Reply&)> damage_reply;

  explicit CompressedTrial(const std::string& compression, const std::string& name = "fedavg")
      : algorithm(Algorithms::make(name)) {
    ConfigDocument::parse(compression, "test").fill([&](ConfigVisitor& visitor) { input.config.describe(visitor); });
    input.seed = 11;
    input.reference = torch::zeros({kParameters});
    input.blocks = [](std::int64_t size) {
      return size == kParameters ? std::vector<FilterBlock>{{0, {32, 60}}, {1920, {128}}} : std::vector<FilterBlock>{};
    };
  }

  RoundResult step() {
    const FilterEnd gate(input, FilterEnd::Side::kClient);
    LocalFederationInput local = quadratic::federation_input(world, cohort_batch, workers);
    local.gate = &gate;
    LocalFederation near(local);
    Wiretap tap(near);
    tap.damage_request = damage_request;
    tap.damage_reply = damage_reply;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> link;
    if (wire) {
      transport = Transports::make("inproc");
      link = LinkedFederations::make("wire", LinkInput{*transport, tap});
    }
    FilteredFederation federation(input, wire ? static_cast<Federation&>(*link) : tap);
    federation.restore(server);
    std::vector<Member> cohort;
    for (ClientId id = 0; id < world.clients.size(); ++id) cohort.push_back({id, 1});
    const auto mean = Aggregations::make("mean");
    const RoundResult result = algorithm->round({federation, *mean, cohort, model, ++round, 10});
    server = federation.state();
    seen = tap.seen;
    reported = federation.traffic();
    numbers = federation.numbers();
    return result;
  }
};

const std::vector<std::string>& configurations() {
  static const std::vector<std::string> all{
      "{up: [{name: uniform, bits: 4}]}",
      "{up: [{name: top_k, k: 0.05}, {name: uniform, bits: 8}], down: [{name: ecq, bits: 8}]}",
      "{up: [{name: random_k, k: 0.1}, fp16], down: [bf16]}",
      "{up: [{name: power_sgd, rank: 2}], down: [{name: power_sgd, rank: 2, error_feedback: false}, fp16]}",
      "{up: [{name: qsgd, bits: 8}], down: [{name: qsgd, bits: 8}]}"};
  return all;
}

TEST(Compression, SameBitsWithAnyWorkersCohortBatchAndThroughAWire) {
  for (const std::string& config : configurations()) {
    for (const char* name : {"fedavg", "scaffold"}) {
      CompressedTrial one(config, name), four(config, name), alone(config, name), wired(config, name);
      four.workers = 4;
      alone.cohort_batch = 1;
      wired.wire = true;
      for (int round = 0; round < 4; ++round) {
        EXPECT_TRUE(one.step().failed.empty());
        four.step();
        alone.step();
        wired.step();
        EXPECT_TRUE(torch::equal(one.model, four.model)) << config;
        EXPECT_EQ(one.numbers, four.numbers) << config;
        EXPECT_TRUE(torch::equal(one.model, alone.model)) << config;
        EXPECT_TRUE(torch::equal(one.model, wired.model)) << config;
        EXPECT_EQ(one.numbers, wired.numbers) << config;
      }
      EXPECT_GT(one.model.abs().max().item<double>(), 0.1) << config;
    }
  }
}

TEST(Compression, WithoutFiltersNothingChanges) {
  CompressedTrial none("{}");
  World world{.clients = five_clients(), .parameters = kParameters};
  LocalFederation plain(quadratic::federation_input(world));
  std::vector<Member> cohort;
  for (ClientId id = 0; id < world.clients.size(); ++id) cohort.push_back({id, 1});
  const at::Tensor model = torch::zeros({kParameters});
  const auto mean = Aggregations::make("mean");
  Algorithms::make("fedavg")->round({plain, *mean, cohort, model, 1, 10});
  none.step();
  EXPECT_TRUE(torch::equal(model, none.model));
  EXPECT_TRUE(none.numbers.empty());
  EXPECT_EQ(none.reported.up, plain.traffic().up);
}

TEST(Compression, BytesReportedAreBytesOnTheWire) {
  for (const std::string& config : configurations()) {
    CompressedTrial run(config), plain("{}");
    run.wire = plain.wire = true;
    run.step();
    plain.step();
    EXPECT_EQ(run.reported.up, run.seen.up) << config;
    EXPECT_EQ(run.reported.down, run.seen.down) << config;
    EXPECT_LT(static_cast<double>(run.reported.up), 0.6 * static_cast<double>(plain.reported.up)) << config;
    const double saved = run.numbers.at("up_ratio");
    // Everything but names and numbers is the update.
    const double others = 5 * 400;
    EXPECT_NEAR(static_cast<double>(run.reported.up), 5.0 * 4 * kParameters / saved, others) << config;
    EXPECT_GT(run.numbers.at("up_error"), 0) << config;
    EXPECT_LT(run.numbers.at("up_error"), 1) << config;
    if (!run.numbers.contains("down_ratio")) {
      EXPECT_EQ(config.find("down"), std::string::npos);
      continue;
    }
    // In the first round all clients already have the model; later they do not.
    EXPECT_EQ(run.numbers.at("down_error"), 0) << config;
    run.step();
    EXPECT_GT(run.numbers.at("down_error"), 0) << config;
    EXPECT_LT(run.numbers.at("down_error"), 1) << config;
    EXPECT_GT(run.numbers.at("down_ratio"), 1.5) << config;
  }
}

TEST(Compression, ADamagedReplyFailsThatClient) {
  CompressedTrial run("{up: [{name: top_k, k: 0.1}, {name: uniform, bits: 4}]}");
  run.damage_reply = [](Reply& reply) {
    at::Tensor& bytes = reply.body.tensors.at("update.packed");
    if (reply.client == 1) bytes = bytes.narrow(0, 0, bytes.numel() - 9);  // truncated
    if (reply.client == 3) bytes = torch::zeros({5000}, at::kByte);        // other bytes
  };
  const RoundResult result = run.step();
  ASSERT_EQ(result.failed.size(), 2U);
  for (const auto& [client, why] : result.failed) {
    EXPECT_TRUE(client == 1 || client == 3);
    EXPECT_THAT(why, HasSubstr("the tensor \"update\" cannot be unpacked"));
  }
  EXPECT_GT(run.model.abs().max().item<double>(), 0);
}

TEST(Compression, AnUnreadableRequestFailsAllClients) {
  CompressedTrial run("{down: [{name: uniform, bits: 8}]}");
  run.damage_request = [](Request& request) { request.body.tensors.at("model.packed")[2] = 7; };
  const RoundResult result = run.step();
  ASSERT_EQ(result.failed.size(), 5U);
  EXPECT_THAT(result.failed[0].second, HasSubstr("these are not packed numbers"));
  EXPECT_EQ(run.model.abs().max().item<double>(), 0);
}

TEST(Compression, AnUpdateThatIsNotFiniteFailsThatClientAndKeepsItsMemory) {
  CompressedTrial run("{up: [{name: top_k, k: 0.1}]}");
  run.step();
  const at::Tensor before = run.world.states[2].at("filters/train/update/error").clone();
  run.world.clients[2].target = std::nan("");
  const RoundResult result = run.step();
  ASSERT_EQ(result.failed.size(), 1U);
  EXPECT_EQ(result.failed[0].first, 2U);
  EXPECT_THAT(result.failed[0].second, HasSubstr("not finite"));
  EXPECT_TRUE(torch::equal(before, run.world.states[2].at("filters/train/update/error")));
}

TEST(Compression, MemoriesOfAnotherSizeAreDiscarded) {
  const std::string config = "{up: [{name: power_sgd, rank: 2}], down: [{name: ecq, bits: 4}]}";
  CompressedTrial grown(config), fresh(config);
  grown.step();
  for (CompressedTrial* trial : {&grown, &fresh}) {
    trial->world.parameters = 3000;
    trial->model = torch::zeros({3000});
    trial->round = 7;
    EXPECT_TRUE(trial->step().failed.empty());
  }
  EXPECT_TRUE(torch::equal(grown.model, fresh.model));
}

TEST(Compression, MemoriesOfAnotherVariantAreDiscarded) {
  CompressedTrial trial("{up: [{name: top_k, k: 0.1}]}");
  const FilterEnd gate(trial.input, FilterEnd::Side::kClient);
  LocalFederationInput local = quadratic::federation_input(trial.world);
  local.gate = &gate;
  LocalFederation near(local);
  FilteredFederation federation(trial.input, near);
  const auto ask = [&](const Variant& variant) {
    Request request{.procedure = "train", .round = 1};
    request.body.tensors["model"] = torch::zeros({kParameters});
    write_variant(variant, request.body);
    const std::vector<ClientId> cohort{0};
    for (Reply& reply : federation.ask(cohort, std::move(request))) {
      EXPECT_TRUE(reply.ok()) << reply.failure;
      reply.accept();
    }
    std::vector<std::string> names;
    for (const auto& entry : trial.world.states[0]) names.push_back(entry.first);
    return names;
  };
  EXPECT_THAT(ask({}), testing::ElementsAre("filters/train/update/error"));
  EXPECT_THAT(ask({2, 8}), testing::ElementsAre("filters/train@2x8/update/error"));
  EXPECT_THAT(ask({1, 16}), testing::ElementsAre("filters/train@1x16/update/error"));
  EXPECT_THAT(ask({}), testing::ElementsAre("filters/train/update/error"));
}

TEST(Compression, TheServersMemoryIsWhatACheckpointNeeds) {
  const std::string config = "{up: [{name: top_k, k: 0.1}], down: [{name: ecq, bits: 4}]}";
  CompressedTrial whole(config), without(config);
  for (int round = 0; round < 3; ++round) {
    whole.step();
    without.step();
  }
  CompressedTrial resumed(config);
  resumed.model = whole.model.clone();
  resumed.round = whole.round;
  resumed.world.states = whole.world.states;
  for (const auto& [name, tensor] : whole.server) resumed.server[name] = tensor.clone();
  EXPECT_FALSE(whole.server.empty());
  without.server.clear();
  whole.step();
  resumed.step();
  without.step();
  EXPECT_TRUE(torch::equal(whole.model, resumed.model));
  EXPECT_FALSE(torch::equal(whole.model, without.model));
}

TEST(SignVote, FollowsTheMajorityWithAndWithoutTheFilter) {
  for (const char* config : {"{}", "{up: [sign]}", "{up: [{name: sign, zeros: true}]}"}) {
    CompressedTrial run(config, "signsgd");
    // Two clients want 1 + i / 10, with 21 votes; three want -500 + i / 10, with 39.
    run.world.clients.clear();
    for (int k = 0; k < 5; ++k) {
      run.world.clients.push_back({.curvature = 1, .target = k < 2 ? 1.0 : -100.0, .steps = 1, .examples = 10.0 + k});
    }
    run.step();
    // i / 10 reaches 204.7: above 100 all clients vote up; below it, the three are the majority.
    const at::Tensor expected = torch::where(torch::arange(kParameters) > 1000, 1e-3, -1e-3).to(at::kFloat);
    at::Tensor off = (run.model - expected).abs() > 1e-7;
    off[1000] = false;  // a tie
    EXPECT_EQ(off.sum().item<std::int64_t>(), 0) << config;
    if (std::string(config) == "{up: [sign]}") {
      EXPECT_GT(run.numbers.at("up_ratio"), 25);
    }
  }
}

}  // namespace
}  // namespace chorus::inline contract

// A client of a served federation against a server that asks for something else than its job says.
#include "apps/serving/hosted_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "apps/experiment/tiny_experiment_test.h"
#include "apps/serving/job_offer.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

using testing::HasSubstr;

class HostedClientTest : public testing::Test {
 protected:
  HostedClientTest() : egress_(folder_ / "egress.jsonl") {
    std::ofstream data(folder_ / "own.jsonl");
    for (int i = 0; i < 8; ++i) {
      data << R"({"text": "the boat in the harbour", "label": ")" << (i % 2 == 0 ? "sea" : "film") << "\"}\n";
    }
    enrol();
  }

  std::unique_ptr<HostedClient> client(const std::string& aggregation, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"aggregation=" + aggregation, "clients_per_round=5"});
    const ExperimentConfig config = tiny_experiment(more);
    const TaskFacts facts{.labels = {"sea", "film"}};
    const ModelFiles files = model_files(config);
    HostedClientInput input{
        .job = {}, .folder = folder_.path(), .data = {}, .test = {}, .policy = policy_, .egress = egress_};
    input.end = {.address = "",
                 .certificate = folder_ / "client.crt",
                 .key = folder_ / "client.key",
                 .authority = folder_ / "authority.crt"};
    input.job = {.client = 3,
                 .run = 9,
                 .rounds = 2,
                 .config = config_for_clients(config),
                 .facts = to_json(facts),
                 .files = files.files};
    input.data = {(folder_ / "own.jsonl").string()};
    for (const JobFile& file : files.files) {
      const auto place = job_folder(folder_.path(), input.job) / file.place;
      std::filesystem::create_directories(place);
      std::filesystem::copy_file(files.paths.at(file.digest), place / file.name,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    model_ = TaskModel(HostedClient::config_for(input), facts).params().values()[0].clone();
    return std::make_unique<HostedClient>(std::move(input));
  }

  void enrol() const {
    const std::time_t now = std::time(nullptr), later = now + 3600;
    const std::string authority_key = make_key(), key = make_key();
    const std::string authority = make_authority({authority_key, "fleet", now, later});
    write_file(folder_ / "authority.crt", authority);
    write_file(folder_ / "client.key", key);
    write_file(folder_ / "client.crt",
               sign_request({authority, authority_key, make_request(key, "clinic"), "clinic", now, later}));
  }

  /// What the server is told.
  static Reply answer(HostedClient& client, const std::string& procedure, Message body = {}) {
    Request request{.procedure = procedure, .round = 1, .body = std::move(body), .run = 9};
    const ClientId self = 3;
    client.expect(1, 0);
    std::optional<Reply> reply = client.ask({&self, 1}, std::move(request)).next();
    return reply.value_or(Reply{});
  }

  TemporaryFolder folder_;
  Policy policy_;
  EgressLog egress_;
  at::Tensor model_;  // as the run begins
};

TEST_F(HostedClientTest, HoldsTheServerToSecureSumsWithoutAPolicy) {
  const auto secure = client("{name: secagg_plus, server: active}");
  EXPECT_TRUE(secure->sums_only());
  for (const char* procedure : {"train", "evaluate", "loss", "fedbuff/release"}) {
    EXPECT_THAT(answer(*secure, procedure).failure, HasSubstr("it refuses: its job promises that the server sees sums"))
        << procedure;
  }
  Message weak;
  weak.texts["secure.procedure"] = "train";
  weak.numbers = {{"secure.protocol", 1}, {"secure.active", 0}};
  EXPECT_THAT(answer(*secure, "secure/begin", weak).failure,
              HasSubstr("it refuses: its job promises secure sums with server: active"));
}

// The job has a budget only, so the client works out how much noise keeps it.
TEST_F(HostedClientTest, HoldsTheServerToTheNoiseOfTheBudget) {
  const auto client_of = client("{name: private_sum, epsilon: 4, clip: 0.5, dropout: 0}", {"weighting=equal"});
  const auto with = [&](double noise) {
    Message begin;
    begin.texts["secure.procedure"] = "train";
    begin.numbers = {{"secure.protocol", 1},  {"secure.active", 0},       {"secure.least", 5},
                     {"secure.bits", 16},     {"secure.corrupt", 0.1},    {"secure.dropout", 0},
                     {"secure.noise", noise}, {"secure.noise_clip", 0.5}, {"secure.noise_honest", 4}};
    if (noise > 0) begin.numbers["secure.noise_kind"] = 1;
    return answer(*client_of, "secure/begin", begin).failure;
  };
  EXPECT_THAT(with(0), HasSubstr("with noise of the clients (mechanism: skellam), and this one has none"));
  EXPECT_THAT(with(0.5), HasSubstr("it refuses: its job promises secure sums with noise: "));
  EXPECT_EQ(with(9).find("it refuses"), std::string::npos) << with(9);
}

TEST_F(HostedClientTest, StopsTrainingWhenNobodyWaitsForTheReply) {
  const auto busy = client("mean", {"trainer.steps=1000000"});
  Request request{.procedure = "train", .round = 1, .run = 9};
  request.body.tensors["model"] = model_;
  busy->expect(1, 0);
  const ClientId self = 3;
  const auto begin = std::chrono::steady_clock::now();
  {
    Replies replies = busy->ask({&self, 1}, std::move(request));
    busy->wait(0.3);
    EXPECT_FALSE(replies.ready());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// fedbuff's clients train and keep the update.
TEST_F(HostedClientTest, RepliesWithNothingWhereNoReplyIsNeeded) {
  const auto secure = client("secagg");
  Message model;
  model.tensors["model"] = model_;
  model.numbers["fedbuff.version"] = 1;
  const Reply held = answer(*secure, "fedbuff/hold", model);
  EXPECT_EQ(held.failure, "");
  EXPECT_EQ(held.body.bytes(), 0U);

  const auto open = client("mean");
  EXPECT_FALSE(open->sums_only());
  const Reply update = answer(*open, "train", model);
  EXPECT_EQ(update.failure, "");
  EXPECT_EQ(update.body.number("examples"), 8);
}

}  // namespace
}  // namespace chorus::inline serving

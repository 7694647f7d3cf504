// Split learning between processes: activations and gradients over TLS, and the same bits as one `chorus run` on
// everybody's data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string split_config(const std::string& algorithm, int rounds, const std::string& more = "") {
  return "algorithm: " + algorithm + "\nrounds: " + std::to_string(rounds) +
         "\nclients_per_round: 4\ntrainer: {batch_size: 16, learning_rate: 5.0e-3, clip: 0}\n" + more;
}
constexpr const char* kFourClients = "serving: {clients: 4, min_clients: 3}\n";

TEST_F(ServingTest, SplitLearningGivesTheBitsOfOneRunAlsoWhenTheServerIsKilled) {
  const std::string quantised = "compression: {up: [{name: uniform, bits: 8}], down: [{name: uniform, bits: 8}]}\n";
  const std::string config =
      split_config("{name: splitfed, layers: 0, labels: client, noise: 0.01, decorrelate: 0.1}", 12, quantised);
  write_config("run.yaml", config, false);
  write_config("served.yaml", config + kFourClients, true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  ASSERT_TRUE(reaches("served", 4)) << server->output();
  server->send(SIGKILL);
  EXPECT_EQ(server->wait(), 128 + SIGKILL);
  server = serve("served");
  EXPECT_EQ(server->wait(), 0) << server->output();
  expect_success(clients);
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
  // The labels stay: what left this machine are activations, gradients and a part of an update.
  EXPECT_EQ(chorus({"egress", "list", "--identity", path("identity_b")}), 0);
  EXPECT_THAT(output_, HasSubstr("activations.packed ("));
  EXPECT_THAT(output_, HasSubstr("gradient.packed ("));
  EXPECT_THAT(output_, Not(HasSubstr("labels (")));
}

TEST_F(ServingTest, SplitLearningGoesOnWithoutAClientThatDies) {
  write_config("served.yaml",
               split_config("{name: splitnn, layers: 1}", 3000,
                            "serving: {clients: 4, min_clients: 3, deadline: 20, grace: 0.5}\n"),
               true);
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  ASSERT_TRUE(reaches("served", 2)) << server->output();
  clients["d"]->send(SIGKILL);  // most likely within a session
  (void)clients["d"]->wait();
  int round = 0;
  ASSERT_TRUE(eventually([&round](const json& now) {
    round = now["round"];
    return std::any_of(now["clients"].begin(), now["clients"].end(),
                       [](const json& client) { return client["name"] == "d" && client["connected"] == false; });
  })) << server->output();
  clients["d"] = join("d");
  ASSERT_TRUE(eventually([&](const json& now) {
    return now["round"] > round + 2 && std::all_of(now["clients"].begin(), now["clients"].end(),
                                                   [](const json& client) { return client["connected"] == true; });
  })) << server->output();
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130) << server->output();
}

}  // namespace
}  // namespace chorus::inline integration

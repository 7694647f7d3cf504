// Runs whose server learns only sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

class SecureRun : public RunTest {
 protected:
  int run_with(const std::string& name, const std::string& aggregation, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"algorithm=fedavg", "aggregation=" + aggregation});
    return run(name, more);
  }
};

TEST_F(SecureRun, RealAndModelledAndSerialisedSumsGiveTheSameBits) {
  ASSERT_EQ(run_with("plain", "mean"), 0) << output_;
  ASSERT_EQ(run_with("real", "{name: secagg_plus, bits: 24}"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("secagg_plus (semi-honest server)"));
  ASSERT_EQ(run_with("modelled", "{name: secagg_plus, bits: 24, mode: cost}"), 0) << output_;
  EXPECT_EQ(weights("real"), weights("modelled"));
  ASSERT_EQ(run_with("light", "{name: light_secagg, bits: 24, clip: 4}"), 0) << output_;
  EXPECT_LT(largest_difference("plain", "light"), 1e-3);
  EXPECT_GT(largest_difference("plain", "light"), 0);
  EXPECT_THAT(output_, HasSubstr("light_secagg"));
  double up = 0;
  for (const std::string& line : scores("real")) {
    const json event = json::parse(line);
    if (event["kind"] == "round" && event.contains("secure_clients")) up += event.at("bytes_up").get<double>();
  }
  EXPECT_GT(up, 0);
}

// Clients that vanish after they trained are left out of the sum, but not of the batches in which they trained.
TEST_F(SecureRun, DropoutsOfRealAndModelledAndSerialisedSumsGiveTheSameBits) {
  // Of eight clients an active server can spare two.
  const std::vector<std::string> cohort = {"clients_per_round=8", "rounds=4"};
  for (const std::string how : {"", ", server: active", ", rare_rows: 2"}) {
    const std::string sum = "{name: secagg_plus, bits: 24, vanish: 0.15" + how;
    ASSERT_EQ(run_with("real", sum + "}", cohort), 0) << output_;
    ASSERT_EQ(run_with("modelled", sum + ", mode: cost}", cohort), 0) << output_;
    EXPECT_EQ(weights("real"), weights("modelled")) << how;
    if (how == ", server: active") {
      std::vector<std::string> bytes = cohort;
      bytes.insert(bytes.end(), {"federation.transport=serialised", "federation.workers=2"});
      ASSERT_EQ(run_with("bytes", sum + "}", bytes), 0);
      EXPECT_EQ(weights("real"), weights("bytes"));
    }
    std::set<double> partial;  // sizes of sums that somebody is missing from
    for (const std::string& line : scores("real")) {
      const double clients = json::parse(line).value("secure_clients", 0.0);
      if (clients > 0 && clients < 8) partial.insert(clients);
    }
    EXPECT_FALSE(partial.empty()) << "no sum of a part of the cohort" << how;
    for (const char* name : {"real", "modelled", "bytes"}) fs::remove_all(folder_ / name);
  }
}

TEST_F(SecureRun, RareWordsAreLeftOutAndRandomElementsAreEnough) {
  ASSERT_EQ(run_with("real", "{name: secagg, rare_rows: 2}", {"rounds=2"}), 0) << output_;
  ASSERT_EQ(run_with("modelled", "{name: secagg, rare_rows: 2, mode: cost}", {"rounds=2"}), 0) << output_;
  EXPECT_EQ(weights("real"), weights("modelled"));
  double left_out = 0;
  for (const std::string& line : scores("real")) left_out += json::parse(line).value("secure_rows_left_out", 0.0);
  EXPECT_GT(left_out, 0);
  ASSERT_EQ(run_with("few", "{name: secagg, keep: 0.1}", {"rounds=2"}), 0) << output_;
}

TEST_F(SecureRun, AnInterruptedRunResumesBitIdentically) {
  ASSERT_EQ(run_with("whole", "secagg"), 0) << output_;
  run_and_kill("killed", {"algorithm=fedavg", "aggregation=secagg"}, 2);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("killed"));
}

}  // namespace
}  // namespace chorus::inline integration

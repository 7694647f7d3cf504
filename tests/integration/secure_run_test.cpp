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
  ASSERT_EQ(run_with("bytes", "{name: secagg_plus, bits: 24, vanish: 0.1, server: active}",
                     {"federation.transport=serialised", "federation.workers=2"}),
            0)
      << output_;
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
  Chorus program(arguments("killed", {"algorithm=fedavg", "aggregation=secagg"}), folder_ / "killed.log");
  wait_for_round("killed", 2);
  program.send(SIGKILL);
  program.wait();
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("killed"));
}

}  // namespace
}  // namespace chorus::inline integration

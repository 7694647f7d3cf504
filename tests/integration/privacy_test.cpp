// Runs with differential privacy: what they report, and how a kill or a restored backup affects the budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

class PrivateRun : public RunTest {
 protected:
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all{
        "algorithm=fedavg", "aggregation={name: private_mean, noise: 1, clip: 0.1, delta: 1e-3}",
        "aggregation.copy=" + (folder_ / "copies").string(), "weighting=equal", "selection=poisson"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// The lines of the ledger without its header.
  long charges(const std::string& name) const {
    const std::string text = read(folder_ / name / "privacy.ledger");
    return std::count(text.begin(), text.end(), '\n') - 1;
  }
};

TEST_F(PrivateRun, ReportsEpsilonInEveryRoundAndInTheSummary) {
  ASSERT_EQ(run("private", with({})), 0) << output_;
  const json privacy = summary("private").at("privacy");
  EXPECT_EQ(privacy.at("charges"), kRounds);
  EXPECT_EQ(charges("private"), kRounds);
  EXPECT_NEAR(privacy.at("sampling_rate").get<double>(), 4.0 / 12, 1e-12);
  EXPECT_THAT(privacy.at("statement").get<std::string>(), HasSubstr("user level"));
  double before = 0;
  int rounds = 0;
  for (const std::string& line : scores("private")) {
    const json event = json::parse(line);
    if (event["kind"] != "round") continue;
    EXPECT_GT(event.at("epsilon").get<double>(), before);
    before = event.at("epsilon");
    ++rounds;
  }
  EXPECT_EQ(rounds, kRounds);
  EXPECT_NEAR(before, privacy.at("epsilon").get<double>(), 0.01 * before);

  // The command line gives the same value.
  const Chorus program({"privacy", "account", "--noise", "1", "--sampling-rate", "0.33333333333333331", "--steps", "6",
                        "--delta", "1e-3", "--json"},
                       folder_ / "account.log");
  ASSERT_EQ(program.wait(), 0) << program.output();
  EXPECT_NEAR(json::parse(program.output()).at("epsilon").get<double>(), privacy.at("epsilon").get<double>(), 1e-3);
}

// A quarter of the clients is kept for the end, so each of the others is drawn more often.
TEST_F(PrivateRun, ClientsThatNeverTrainDoNotHideTheOthers) {
  ASSERT_EQ(run("kept", with({"rounds=1", "evaluation.personal.newcomers=0.25"})), 0) << output_;
  EXPECT_NEAR(summary("kept").at("privacy").at("sampling_rate").get<double>(), 4.0 / 9, 1e-12);
}

TEST_F(PrivateRun, NoiseNeverRepeats) {
  ASSERT_EQ(run("one", with({})), 0) << output_;
  ASSERT_EQ(run("two", with({})), 0) << output_;
  EXPECT_GT(largest_difference("one", "two"), 0);
}

TEST_F(PrivateRun, StopsBeforeItsBudgetIsExceeded) {
  ASSERT_EQ(run("short", with({"aggregation.epsilon=3"})), 0) << output_;
  const json result = summary("short");
  EXPECT_EQ(result.at("status"), "budget_spent");
  EXPECT_LE(result.at("privacy").at("epsilon").get<double>(), 3);
  EXPECT_LT(result.at("rounds").get<int>(), kRounds);
  EXPECT_GT(result.at("rounds").get<int>(), 0);
  EXPECT_EQ(charges("short"), result.at("rounds").get<int>());
}

// Case 20 of the faults: charged first, released later.
TEST_F(PrivateRun, Case20AfterAKillOrFromABackupItNeverReportsLess) {
  const std::vector<std::string> longer = with({"rounds=12"});
  const Chorus program(arguments("killed", longer), folder_ / "killed.log");
  wait_for_round("killed", 2);
  const fs::path backup = folder_ / "backup";
  fs::create_directory(backup);
  fs::copy_file(folder_ / "killed" / "privacy.ledger", backup / "privacy.ledger");
  wait_for_round("killed", 4);
  program.send(SIGKILL);
  program.wait();
  const long spent = charges("killed");
  EXPECT_GE(spent, newest_round("killed"));
  fs::copy_file(backup / "privacy.ledger", folder_ / "killed" / "privacy.ledger", fs::copy_options::overwrite_existing);
  const int round = newest_round("killed");
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(summary("killed").at("privacy").at("charges").get<long>(), spent + 12 - round);
}

// A checkpoint without its ledger would begin to count at 0.
TEST_F(PrivateRun, ARunWithoutItsLedgerDoesNotGoOn) {
  run_and_kill("bare", with({"rounds=8"}), 2);
  fs::remove(folder_ / "bare" / "privacy.ledger");
  fs::remove_all(folder_ / "copies");
  EXPECT_EQ(resume("bare"), 3) << output_;
  EXPECT_THAT(output_, HasSubstr("privacy ledger is lost or too old: it has 0 of the"));
}

// What clients were charged is in their own ledgers; the checkpoint knows how much.
TEST_F(PrivateRun, ALostCutOrOlderLedgerOfTheClientsIsRefused) {
  const std::map<std::string, std::vector<std::string>> cases{
      {"examples.ledger", {"trainer.privacy={noise: 1, delta: 1e-3}"}},
      {"local.ledger", {"compression.up=[{name: local_gaussian, clip: 0.5, noise: 4}]"}},
      {"labels.ledger", {"trainer.label_epsilon=3"}}};
  for (const auto& [file, settings] : cases) {
    std::vector<std::string> how{"algorithm=fedavg", "rounds=30"};
    how.insert(how.end(), settings.begin(), settings.end());
    const std::string name = file.substr(0, file.find('.'));
    run_and_kill(name, how, 2);
    const fs::path ledger = folder_ / name / file;
    const std::string whole = read(ledger);
    const auto refused = [&](const std::string& what) {
      fs::remove_all(folder_ / "state");  // no copy
      EXPECT_EQ(resume(name), 3) << file << " " << what << "\n" << output_;
      EXPECT_THAT(output_, HasSubstr(file + ": this privacy ledger is lost or too old")) << what;
      EXPECT_FALSE(fs::exists(folder_ / name / "summary.json")) << what;
    };
    fs::remove(ledger);
    refused("deleted");
    std::ofstream(ledger, std::ios::binary) << whole.substr(0, whole.find('\n') + 1);
    refused("restored from before the first charge");
    std::ofstream(ledger, std::ios::binary) << whole.substr(0, whole.find('\n') + 20);
    refused("truncated");
    std::ofstream(ledger, std::ios::binary) << whole;
    ASSERT_EQ(resume(name), 0) << file << output_;
    const auto charged = summary(name).at("privacy").at("charges").get<long>();
    EXPECT_GT(charged, std::count(whole.begin(), whole.end(), '\n') - 1) << file;
  }
}

// Case 21: everybody takes part in every round, so two restores of one backup differ by their noise alone.
TEST_F(PrivateRun, Case21TwoRestoresOfOneBackupDrawDifferentNoise) {
  run_and_kill("first", with({"rounds=8", "clients_per_round=12"}), 2);
  const int round = newest_round("first");
  fs::copy(folder_ / "first", folder_ / "second", fs::copy_options::recursive);
  ASSERT_EQ(resume("first"), 0) << output_;
  ASSERT_EQ(resume("second"), 0) << output_;
  EXPECT_GT(largest_difference("first", "second"), 0);
  // The second restore counts what the first one spent after the backup: the ledger's copy outside of the folder.
  const auto charged = [&](const char* name) { return summary(name).at("privacy").at("charges").get<long>(); };
  EXPECT_GE(charged("second"), charged("first") + 8 - round);
}

// Noise of the clients inside a secure sum, over the same messages as any secure sum.
TEST_F(PrivateRun, NoiseInsideASecureSumIsChargedToEveryClient) {
  for (const std::string protocol : {"secagg_plus", "light_secagg"}) {
    const std::vector<std::string> settings{
        "algorithm=fedavg", "weighting=equal", "rounds=2",
        "aggregation={name: private_sum, noise: 1, clip: 0.1, delta: 1e-3, copy: none, protocol: " + protocol + "}"};
    ASSERT_EQ(run(protocol, settings), 0) << output_;
    const json privacy = summary(protocol).at("privacy");
    EXPECT_EQ(privacy.at("charges"), 2 * 4);
    EXPECT_EQ(charges(protocol), 2 * 4);
    EXPECT_GT(privacy.at("epsilon").get<double>(), 3);
    EXPECT_THAT(privacy.at("statement").get<std::string>(), HasSubstr("noise of 3 honest clients"));
  }
  EXPECT_EQ(run("weighted", {"algorithm=fedavg", "aggregation={name: private_sum, noise: 1}"}), 2);
  EXPECT_THAT(output_, HasSubstr("weighting: equal"));
  EXPECT_EQ(run("silent", {"algorithm=fedavg", "aggregation=private_sum", "weighting=equal"}), 2);
  EXPECT_THAT(output_, HasSubstr("give noise"));
}

// Clients train on randomized responses; a run that goes on gives labels out again.
TEST_F(PrivateRun, LabelsAreHiddenByTheirOwners) {
  ASSERT_EQ(run("labels", {"algorithm=fedavg", "rounds=2", "trainer.label_epsilon=3"}), 0) << output_;
  ASSERT_EQ(run("open", {"algorithm=fedavg", "rounds=2"}), 0) << output_;
  EXPECT_GT(largest_difference("labels", "open"), 0);
  const json privacy = summary("labels").at("privacy");
  EXPECT_NEAR(privacy.at("epsilon").get<double>(), 3, 1e-9);
  EXPECT_EQ(privacy.at("delta").get<double>(), 0);
  EXPECT_THAT(privacy.at("statement").get<std::string>(), HasSubstr("Not protected: texts"));
  EXPECT_EQ(run("pooled", {"algorithm=centralized", "trainer.label_epsilon=3"}), 2);
  EXPECT_THAT(output_, HasSubstr("trainer.label_epsilon"));
}

TEST_F(PrivateRun, UnprotectedConfigurationsAreRefused) {
  EXPECT_EQ(run("weights", {"algorithm=fedavg", "aggregation={name: private_mean, noise: 1}", "selection=poisson"}), 2);
  EXPECT_THAT(output_, HasSubstr("weighting: equal"));
  const Chorus shuffled({"privacy", "account", "--noise", "1", "--sampling", "shuffled"}, folder_ / "shuffled.log");
  EXPECT_EQ(shuffled.wait(), 2);
  EXPECT_THAT(shuffled.output(), HasSubstr("Poisson"));
}

}  // namespace
}  // namespace chorus::inline integration

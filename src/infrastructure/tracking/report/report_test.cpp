#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/report/columns.h"
#include "infrastructure/tracking/report/page.h"
#include "infrastructure/tracking/report/page_data.h"
#include "infrastructure/tracking/report/run_process.h"
#include "infrastructure/tracking/report/run_view.h"
#include "tests/support.h"

namespace chorus::inline report {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ReportColumns, AColumnThatComesLaterIsEmptyBefore) {
  Columns columns;
  columns.add({{"round", 1}});
  columns.add({{"round", 2}, {"loss", 0.5}});
  columns.add({{"round", 3}});
  EXPECT_EQ(columns.rows(), 3U);
  const auto& loss = columns.values().at("loss");
  ASSERT_EQ(loss.size(), 3U);
  EXPECT_TRUE(std::isnan(loss[0]) && std::isnan(loss[2]));
  EXPECT_EQ(loss[1], 0.5);
}

TEST(ReportColumns, ThinningKeepsEndsAndPeaks) {
  Columns columns;
  for (int i = 0; i < 10000; ++i) columns.add({{"loss", i == 4321 ? 99.0 : i == 7654 ? -99.0 : std::sin(i)}});
  const std::vector<std::size_t> kept = columns.thinned("loss", 100);
  EXPECT_LE(kept.size(), 100U);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_THAT(kept, testing::IsSupersetOf({0, 4321, 7654, 9999}));
  EXPECT_EQ(columns.thinned("loss", 20000).size(), 10000U);
  EXPECT_GE(columns.thinned("no such column", 100).size(), 40U);
}

class ReportRuns : public testing::Test {
 protected:
  std::filesystem::path make(const std::string& name, const std::string& metric = "accuracy") {
    RunInfo info;
    info.command = "chorus run </script><script>alert(1)</script>";
    info.chorus_version = "1";
    const RunFolder run = RunFolder::create({.folder = folder_ / name, .config_yaml = "rounds: 3\n", .info = info});
    MetricsLog log(run.metrics());
    Event started{"run_started", 0, {{"rounds", 3}, {"target", 0.5}}, {{"algorithm", "fedavg"}, {"metric", metric}}};
    log.record(started);
    return run.path();
  }
  static void round(const std::filesystem::path& run, std::int64_t number, double score) {
    MetricsLog log(run / "metrics.jsonl");
    log.record({"round", number, {{"loss", 1.0 / static_cast<double>(number)}, {"seconds", 2}, {"bytes_up", 10}}});
    log.record({"evaluation", number, {{"accuracy", score}, {"examples", 30}}, {{"split", "test"}}});
  }
  static json shown(RunView& view, std::size_t points = 100) {
    view.refresh();
    return json::parse(view.json(points));
  }

  TemporaryFolder folder_;
};

TEST_F(ReportRuns, ARunIsShownWithItsCurvesAndCosts) {
  const auto run = make("a");
  for (int r = 1; r <= 3; ++r) round(run, r, 0.1 * r);
  MetricsLog log(run / "metrics.jsonl");
  log.record({"client_failed", 2, {{"client", 4}}, {{"reason", "no memory"}}});
  log.record({"client_failed", 3, {{"client", 5}}, {{"reason", "no memory"}}});
  log.record({"client_scores", 3, {{"client/anna", 0.25}, {"client/ben", std::nan("")}}});
  RunView view(run);
  const json data = shown(view);
  EXPECT_EQ(data["algorithm"], "fedavg");
  EXPECT_EQ(data["status"], "stopped");
  EXPECT_EQ(data["rounds"], 3);
  EXPECT_EQ(data["evaluation"]["accuracy"], json({0.1, 0.2, 0.3}));
  EXPECT_EQ(data["evaluation"]["bytes"], json({10, 20, 30})) << "costs add up";
  EXPECT_EQ(data["round"]["seconds"], json({2, 4, 6}));
  EXPECT_FALSE(data["evaluation"].contains("examples_of_test"));
  EXPECT_EQ(data["failures"][0]["count"], 2);
  EXPECT_EQ(data["failures"][0]["last"], 3);
  EXPECT_EQ(data["scores"]["clients"], json({{"anna", 0.25}, {"ben", nullptr}}));
}

TEST_F(ReportRuns, OnlyWhatIsNewIsReadAndAResumedRunIsReadAgain) {
  const auto run = make("a");
  RunView view(run);
  EXPECT_TRUE(view.refresh());
  EXPECT_FALSE(view.refresh());
  round(run, 1, 0.1);
  round(run, 2, 0.2);
  EXPECT_TRUE(view.refresh());
  std::ofstream(run / "metrics.jsonl", std::ios::app) << R"({"kind":"round","rou)";
  EXPECT_FALSE(view.refresh()) << "a line that is being written is not read";
  cut_events_after(run / "metrics.jsonl", 1);
  EXPECT_EQ(shown(view)["evaluation"]["accuracy"], json({0.1}));
  std::ofstream(run / "metrics.jsonl", std::ios::app) << "nonsense\n";
  view.refresh();
  EXPECT_THAT(view.problem(), HasSubstr("metrics.jsonl, byte"));
  EXPECT_EQ(shown(view)["evaluation"]["accuracy"], json({0.1})) << "what came before stays";
}

TEST_F(ReportRuns, TheProcessOfARunIsFoundAndNamesItPaused) {
  const auto path = make("a");
  EXPECT_EQ(process_of_run(path), std::nullopt);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder held = RunFolder::open(path);
    std::ofstream(path / "held") << "yes";
    ::pause();
    ::_exit(0);
  }
  for (int i = 0; i < 500 && !std::filesystem::exists(path / "held"); ++i) ::usleep(10000);
  const auto found = process_of_run(path);
  EXPECT_EQ(found, std::optional<std::int64_t>(child));
  ::kill(child, SIGSTOP);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(process_is_paused(child));
  RunView view(path);
  const json data = shown(view);
  EXPECT_EQ(data["status"], "running");
  EXPECT_EQ(data["paused"], true);
  EXPECT_EQ(data["controllable"], true);
  EXPECT_EQ(data["server"], nullptr);
  write_file(path / "server.json", R"({"state": "waiting", "clients": [{"name": "a", "state": "late"}]})");
  EXPECT_EQ(shown(view)["server"]["clients"][0]["state"], "late");
  write_file(path / "server.json", "[1, 2");
  EXPECT_EQ(shown(view)["server"], nullptr) << "damaged";
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  write_file(path / "server.json", R"({"state": "training"})");
  const json stopped = shown(view);
  EXPECT_EQ(stopped["status"], "stopped");
  EXPECT_EQ(stopped["server"], nullptr) << "nobody works on it any more";
}

TEST_F(ReportRuns, NothingInARunCanBecomeCode) {
  const auto run = make("<img src=x onerror=alert(1)>", "</script><script>");
  round(run, 1, 0.5);
  write_file(run / "clients.json", R"({"clients": [{"name": "<!--<script>"}]})");
  write_file(run / "config.yaml", "name: \"</script><script>alert(1)</script>\"\n");
  RunView view(run);
  view.refresh();
  const std::string data = page_data({&view}, {.title = "<b>&amp;"});
  EXPECT_THAT(data, HasSubstr("</script>"));
  if (kPage.page.empty()) GTEST_SKIP() << "the program was built without esbuild";
  const std::string html = page_html(data, false);
  const std::size_t begin = html.find("id=\"data\">") + 10, end = html.find("</script>", begin);
  const std::string embedded = html.substr(begin, end - begin);
  EXPECT_THAT(embedded, Not(HasSubstr("<")));
  EXPECT_EQ(json::parse(embedded), json::parse(data)) << "escaped, it means the same";
  EXPECT_EQ(html.find("{{"), std::string::npos);
}

TEST(ReportPage, Base64IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::string("\x00\x00\x80\x3f\xff", 5)), "AACAP/8=");
}

TEST_F(ReportRuns, LongCurvesArePackedAndConstantOnesAreOneNumber) {
  const auto run = make("a");
  for (int i = 1; i <= 300; ++i) round(run, i, i * 0.25);
  RunView view(run);
  const json data = shown(view, 1000);
  EXPECT_EQ(data["evaluation"]["accuracy"].get<std::string>().size(), 300U * 4 / 3 * 4);
  EXPECT_THAT(data["evaluation"]["accuracy"].get<std::string>(),
              testing::StartsWith(base64(std::string("\0\0\x80>\0\0\0?", 8)).substr(0, 10)))
      << "0.25 and 0.5 as little-endian floats";
  EXPECT_EQ(data["round"]["seconds_of_round"]["count"], 300);
}

TEST(ReportPage, RunsItsOwnScriptOnly) {
  if (kPage.page.empty()) GTEST_SKIP() << "the program was built without esbuild";
  EXPECT_EQ(kPage.script_sum.size(), 64U);
  const std::string policy = page_policy(false);
  EXPECT_THAT(policy, testing::StartsWith("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, Not(HasSubstr("connect-src")));
  EXPECT_THAT(page_policy(true), HasSubstr("connect-src 'self'"));
  EXPECT_THAT(page_html("{}", false), testing::AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
}

TEST_F(ReportRuns, RunsAreFoundInFoldersAndToldApart) {
  make("sweep/one");
  make("other/one");
  make("two");
  std::filesystem::create_directories(folder_ / "empty");
  const auto found = find_runs({folder_.path(), folder_ / "two"});
  ASSERT_EQ(found.size(), 3U);
  std::vector<std::unique_ptr<RunView>> views;
  std::vector<RunView*> runs;
  for (const auto& path : found) runs.push_back(views.emplace_back(std::make_unique<RunView>(path)).get());
  give_labels(runs);
  const json data = json::parse(page_data(runs, {}));
  EXPECT_EQ(data["runs"][0]["label"], "other/one");
  EXPECT_EQ(data["runs"][1]["label"], "sweep/one");
  EXPECT_THAT(find_runs({folder_ / "empty"}), ElementsAre());
  EXPECT_GE(points_per_curve(100), 1000U);
  EXPECT_GE(points_per_curve(1), 10000U);
}

}  // namespace
}  // namespace chorus::inline report

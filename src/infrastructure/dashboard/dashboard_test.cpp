#include "infrastructure/dashboard/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "infrastructure/http/visitor_test.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/report/page.h"
#include "tests/support.h"

namespace chorus::inline dashboard {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class DashboardTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kPage.page.empty()) GTEST_SKIP() << "the program was built without esbuild";
  }
  std::filesystem::path make(const std::string& name, const std::string& command = "chorus run x.yaml") {
    RunInfo info;
    info.command = command;
    const RunFolder run = RunFolder::create({.folder = folder_ / name, .config_yaml = "rounds: 3\n", .info = info});
    MetricsLog(run.metrics())
        .record({"run_started", 0, {{"rounds", 3}}, {{"algorithm", "fedavg"}, {"metric", "accuracy"}}});
    return run.path();
  }
  DashboardOptions options() {
    DashboardOptions options;
    options.folder = folder_.path();
    options.port = 0;
    options.seconds = 0.02;
    options.token = "secret";
    return options;
  }
  static std::uint16_t port_of(const Dashboard& dashboard) {
    return static_cast<std::uint16_t>(std::stoi(dashboard.address().substr(17)));
  }

  TemporaryFolder folder_;
};

TEST_F(DashboardTest, ThePageHasTheRunsAndAStrictPolicy) {
  make("a");
  const Dashboard dashboard(options());
  const std::string page = ask(port_of(dashboard), "GET /");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("\"label\":\"a\""));
  EXPECT_THAT(page, Not(HasSubstr("secret"))) << "the token is not in the page";
  EXPECT_THAT(ask(port_of(dashboard), "GET /elsewhere"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(port_of(dashboard), "GET /control"), StartsWith("HTTP/1.1 405"));
}

TEST_F(DashboardTest, ChangesAreSentAsTheyCome) {
  const auto first = make("a");
  const Dashboard dashboard(options());
  Visitor visitor(port_of(dashboard));
  visitor.say("GET /events HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_of(dashboard)) + "\r\n\r\n");
  EXPECT_THAT(visitor.hear("\"label\":\"a\""), HasSubstr("text/event-stream"));
  MetricsLog(first / "metrics.jsonl").record({"evaluation", 1, {{"accuracy", 0.625}}, {{"split", "test"}}});
  EXPECT_THAT(visitor.hear("0.625"), HasSubstr("event: run\ndata: {"));
  make("b");
  EXPECT_THAT(visitor.hear("\"label\":\"b\""), HasSubstr("\"label\":\"b\""));
  std::filesystem::remove_all(first);
  EXPECT_THAT(visitor.hear("event: gone\ndata: \"a\""), HasSubstr("event: gone\ndata: \"a\""));
}

TEST_F(DashboardTest, OrdersNeedTheTokenAndReachTheProcess) {
  const auto run = make("a");
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder held = RunFolder::open(run);
    std::ofstream(run / "held") << "yes";
    while (true) ::pause();
  }
  for (int i = 0; i < 500 && !std::filesystem::exists(run / "held"); ++i) ::usleep(10000);
  const Dashboard dashboard(options());
  const auto order = [&](const std::string& action, const std::string& headers) {
    return ask(port_of(dashboard), "POST /control", headers, json({{"run", "a"}, {"action", action}}).dump());
  };
  EXPECT_THAT(order("stop", ""), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(order("stop", "X-Chorus-Token: secreT\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(order("stop", "X-Chorus-Token: secret\r\nOrigin: http://evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(order("dance", "X-Chorus-Token: secret\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(
      ask(port_of(dashboard), "POST /control", "X-Chorus-Token: secret\r\n", R"({"run": "no", "action": "stop"})"),
      StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(order("pause", "X-Chorus-Token: secret\r\n"), HasSubstr("is paused"));
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_THAT(order("continue", "X-Chorus-Token: secret\r\n"), HasSubstr("continues"));
  EXPECT_THAT(order("stop", "X-Chorus-Token: secret\r\n"), HasSubstr("stops after this round"));
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  EXPECT_THAT(order("stop", "X-Chorus-Token: secret\r\n"), HasSubstr("no process works on this run"));
}

TEST_F(DashboardTest, AServerIsPausedByAFileSoThatItKeepsItsClients) {
  const auto run = make("a", "chorus serve x.yaml");
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder held = RunFolder::open(run);
    std::ofstream(run / "held") << "yes";
    while (true) ::pause();
  }
  for (int i = 0; i < 500 && !std::filesystem::exists(run / "held"); ++i) ::usleep(10000);
  EXPECT_THAT(control_run(run, "pause"), HasSubstr("pauses after this round"));
  EXPECT_TRUE(std::filesystem::exists(run / "pause"));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED | WNOHANG), 0) << "the process itself goes on";
  RunView view(run);
  view.refresh();
  EXPECT_EQ(json::parse(view.json(10))["paused"], true);
  EXPECT_EQ(json::parse(view.json(10))["controllable"], true);
  EXPECT_THAT(control_run(run, "continue"), HasSubstr("continues"));
  EXPECT_FALSE(std::filesystem::exists(run / "pause"));
  EXPECT_THAT(control_run(run, "stop"), HasSubstr("stops after this round"));
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

TEST(DashboardFolder, MustExist) {
  EXPECT_THAT(message_of<DataError>([] { Dashboard dashboard({.folder = "/no/such/folder"}); }),
              HasSubstr("no such folder"));
  EXPECT_EQ(random_token().size(), 32U);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace chorus::inline dashboard

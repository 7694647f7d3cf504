#include "apps/serving/control_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/console/quiet_console.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

using testing::HasSubstr;
using testing::Not;

class ControlRoomTest : public testing::Test {
 protected:
  ControlRoomTest() {
    room_.update([](ServerStatus& status) {
      status.run = "/srv/runs/served-001";
      status.clients = {{.id = 0, .name = "clinic-a", .examples = 431}, {.id = 1, .name = "clinic-b"}};
      status.clients[1].alive = false;
      status.doing = {{"clinic-a", "working"}, {"clinic-b", "resting"}};
      status.refusals["clinic-c"] = "its policy";
    });
  }

  const QuietConsole quiet_;
  TemporaryFolder folder_;
  ControlRoom room_{folder_ / "server.sock", "", folder_ / "pause"};
};

TEST_F(ControlRoomTest, TheSocketTellsWhoTheClientsAre) {
  const HttpResponse answer = room_.answer({"GET", "/status"});
  ASSERT_EQ(answer.status, 200);
  const auto status = nlohmann::json::parse(answer.body);
  EXPECT_EQ(status["clients"][0]["name"], "clinic-a");
  EXPECT_EQ(status["clients"][0]["examples"], 431);
  EXPECT_EQ(status["clients"][1]["state"], "resting");
  EXPECT_EQ(status["clients"][1]["connected"], true);
  EXPECT_EQ(room_.answer({"GET", "/metrics"}).status, 200);
}

TEST_F(ControlRoomTest, ThePortTellsNumbersOnly) {
  EXPECT_EQ(room_.page({"GET", "/status"}).status, 404);
  EXPECT_EQ(room_.page({"POST", "/stop"}).status, 404);
  EXPECT_EQ(room_.page({"GET", "/healthz"}).body, "ok\n");
  const HttpResponse metrics = room_.page({"GET", "/metrics"});
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.body, HasSubstr("chorus_clients_known 2"));
  EXPECT_THAT(metrics.body, Not(HasSubstr("clinic")));
  EXPECT_EQ(room_.stops(), 0);
}

}  // namespace
}  // namespace chorus::inline serving

#include "core/base/stop_point.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"

namespace chorus::inline base {
namespace {

TEST(StopPoint, EndsTheWorkOfItsThreadOnceTheFlagIsSet) {
  std::atomic<bool> stop = false;
  EXPECT_NO_THROW(stop_point());
  {
    const StopScope scope(stop);
    EXPECT_NO_THROW(stop_point());
    stop = true;
    EXPECT_THROW(stop_point(), Interrupted);
    std::thread([] { EXPECT_NO_THROW(stop_point()); }).join();
    const std::atomic<bool> go_on = false;
    const StopScope inner(go_on);
    EXPECT_NO_THROW(stop_point());
  }
  EXPECT_NO_THROW(stop_point());
}

}  // namespace
}  // namespace chorus::inline base

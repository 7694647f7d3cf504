#include "core/console/quiet_console.h"

#include <gtest/gtest.h>

#include "core/console/progress.h"

namespace chorus::inline console {
namespace {

TEST(QuietConsole, RestoresWhatWasShownBefore) {
  const LogLevel level = log_level();
  for (const bool progress : {false, true}) {
    for (const LogLevel before : {LogLevel::kDebug, LogLevel::kOff}) {
      set_log_level(before);
      set_progress_enabled(progress);
      {
        const QuietConsole quiet;
        EXPECT_FALSE(progress_enabled());
        EXPECT_GE(log_level(), LogLevel::kError);
      }
      EXPECT_EQ(progress_enabled(), progress);
      EXPECT_EQ(log_level(), before);
    }
  }
  set_progress_enabled(true);
  set_log_level(level);
}

}  // namespace
}  // namespace chorus::inline console

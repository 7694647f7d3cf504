#include "infrastructure/tracking/failures.h"

#include <gtest/gtest.h>

#include <vector>

namespace chorus::inline tracking {
namespace {

TEST(Failures, AreCountedWithTheirMostFrequentReason) {
  std::vector<Event> events{{"round", 1, {{"clients", 4}}}, {"round", 2, {{"clients", 4}}}};
  EXPECT_EQ(failures_text(events), "");
  const auto fail = [&](const char* reason) { events.push_back({"client_failed", 2, {}, {{"reason", reason}}}); };
  fail("it needs more memory than there is");
  EXPECT_EQ(failures_text(events), "clients were left out once of 8, because it needs more memory than there is");
  fail("its loss is not a number");
  fail("its loss is not a number");
  EXPECT_EQ(failures_text(events),
            "clients were left out 3 times of 8, most often (2 times) because its loss is not a number");
}

}  // namespace
}  // namespace chorus::inline tracking

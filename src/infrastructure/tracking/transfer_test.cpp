#include "infrastructure/tracking/transfer.h"

#include <gtest/gtest.h>

namespace chorus::inline tracking {
namespace {

RunSummary three_segments() {
  // Rows: before, after the first, second, third segment.
  const double r[4][3] = {{0.1, 0.2, 0.15}, {0.8, 0.3, 0.25}, {0.6, 0.9, 0.35}, {0.5, 0.7, 0.85}};
  RunSummary summary;
  for (std::size_t i = 1; i < 4; ++i) {
    PhaseSummary phase;
    for (std::size_t j = 0; j < 3; ++j) {
      phase.last[segment_score_name(j)] = r[i][j];
      if (i == 1) phase.last[segment_score_name(j, true)] = r[0][j];
    }
    summary.phases.push_back(phase);
  }
  return summary;
}

TEST(Transfer, IsTheMeanChangeOnOtherSegments) {
  RunSummary summary = three_segments();
  const auto transfer = transfer_of(summary);
  ASSERT_TRUE(transfer.has_value());
  EXPECT_NEAR(transfer->backward, ((0.5 - 0.8) + (0.7 - 0.9)) / 2, 1e-12);
  EXPECT_NEAR(transfer->forward, ((0.3 - 0.2) + (0.35 - 0.15)) / 2, 1e-12);
  summary.higher_is_better = false;
  EXPECT_NEAR(transfer_of(summary)->backward, 0.25, 1e-12);
  // The scores survive the summary's file.
  EXPECT_NEAR(transfer_of(parse_run_summary(to_json(summary), "test"))->forward, -0.15, 1e-12);
  summary.phases[1].last.erase(segment_score_name(2));
  EXPECT_FALSE(transfer_of(summary).has_value());
  EXPECT_FALSE(transfer_of({}).has_value());
}

}  // namespace
}  // namespace chorus::inline tracking

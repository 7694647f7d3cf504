#include "infrastructure/tracking/split_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorus::inline tracking {
namespace {

TEST(SplitCosts, AddUpBytesAndKeepTheLargestMemory) {
  const auto round = [](std::int64_t number, double bytes, double memory) {
    return Event{"round",
                 number,
                 {{"activation_bytes_up", bytes},
                  {"activation_bytes_down", 2 * bytes},
                  {"client_memory", memory},
                  {"server_memory", 3 * memory},
                  {"client_parameters", 4e6},
                  {"server_parameters", 1e6}}};
  };
  const std::vector<Event> events{round(1, 1e6, 7e6), {"evaluation", 1}, round(2, 3e6, 5e6)};
  const auto costs = split_costs(events);
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->up, 4e6);
  EXPECT_EQ(costs->down, 8e6);
  EXPECT_EQ(costs->client_memory, 7e6);
  EXPECT_EQ(costs->server_memory, 21e6);
  EXPECT_THAT(split_costs_text(*costs), testing::HasSubstr("client side: 4.00 M parameters, 7.0 MB of memory, 4.0 MB"));
  EXPECT_FALSE(split_costs(std::vector<Event>{{"round", 1}}).has_value());
}

}  // namespace
}  // namespace chorus::inline tracking

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <queue>
#include <set>

#include "algorithm/secure/graph/graph_finder.h"
#include "algorithm/secure/graph/neighbour_graph.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/support.h"

namespace chorus::inline secure_graph {
namespace {

constexpr auto kCurious = ServerKind::kCurious;
constexpr auto kLying = ServerKind::kSemiMalicious;

// Degrees and largest thresholds for 40 security and 20 correctness bits, as published in the tests of
// google-parfait/federated-compute (fcp/secagg/server/graph_parameter_finder_test.cc).
TEST(GraphFinder, EqualsPublishedDegrees) {
  struct {
    std::int64_t clients;
    double corrupt, dropout;
    ServerKind server;
    std::int64_t neighbours, threshold;
  } const cases[] = {{100, 0.45, 0.45, kCurious, 92, 46},
                     {1000, 0.45, 0.45, kCurious, 822, 417},
                     {10000, 0.45, 0.45, kCurious, 3494, 1771},
                     {10, 0.33, 0.33, kCurious, 8, 4},
                     {100, 0.33, 0.33, kCurious, 68, 34},
                     {1000, 0.33, 0.33, kCurious, 286, 150},
                     {10000, 0.33, 0.33, kCurious, 422, 221},
                     {100000, 0.33, 0.33, kCurious, 480, 251},
                     {1000000, 0.33, 0.33, kCurious, 518, 270},
                     {100, 0.3, 0.3, kLying, 92, 62},
                     {1000, 0.3, 0.3, kLying, 872, 584},
                     {10000, 0.3, 0.3, kLying, 4822, 3230},
                     {10, 0.05, 0.33, kCurious, 4, 2},
                     {100, 0.05, 0.33, kCurious, 28, 6},
                     {1000, 0.05, 0.33, kCurious, 72, 24},
                     {10000, 0.05, 0.33, kCurious, 86, 29},
                     {100000, 0.05, 0.33, kCurious, 96, 32},
                     {1000000, 0.05, 0.33, kCurious, 102, 34},
                     {10, 0.05, 0.33, kLying, 8, 5},
                     {100, 0.05, 0.33, kLying, 72, 39},
                     {1000, 0.05, 0.33, kLying, 398, 223},
                     {10000, 0.05, 0.33, kLying, 746, 420},
                     {100000, 0.05, 0.33, kLying, 882, 496},
                     {1000000, 0.05, 0.33, kLying, 970, 545},
                     {10, 0.33, 0.05, kCurious, 4, 4},
                     {100, 0.33, 0.05, kCurious, 34, 29},
                     {1000, 0.33, 0.05, kCurious, 78, 60},
                     {10000, 0.33, 0.05, kCurious, 92, 70},
                     {100000, 0.33, 0.05, kCurious, 102, 77},
                     {1000000, 0.33, 0.05, kCurious, 110, 83},
                     {10, 0.33, 0.05, kLying, 4, 4},
                     {100, 0.33, 0.05, kLying, 42, 37},
                     {1000, 0.33, 0.05, kLying, 132, 109},
                     {10000, 0.33, 0.05, kLying, 178, 146}};
  for (const auto& c : cases) {
    const GraphChoice choice = find_graph({c.clients, c.corrupt, c.dropout, c.server});
    EXPECT_EQ(choice.neighbours, c.neighbours) << c.clients << " " << c.corrupt << " " << c.dropout;
    EXPECT_LE(choice.threshold, c.threshold) << c.clients << " " << c.corrupt << " " << c.dropout;
    EXPECT_GT(choice.threshold, choice.colluding);
    if (c.server == kLying) {
      EXPECT_GT(2 * choice.threshold, choice.neighbours + choice.colluding);
    }
  }
}

TEST(GraphFinder, MoreBitsNeedMoreNeighbours) {
  GraphRequest request{1000, 0.05, 0.05, kCurious};
  const std::int64_t usual = find_graph(request).neighbours;
  request.security_bits = 80;
  EXPECT_GT(find_graph(request).neighbours, usual);
}

TEST(GraphFinder, InfeasibleRequestsAreRefused) {
  using testing::HasSubstr;
  const auto message = [](const GraphRequest& request) {
    return message_of<ConfigError>([&] { find_graph(request); });
  };
  EXPECT_THAT(message({1000, 0.5, 0.41, kCurious}), HasSubstr("corrupt + dropout must not exceed 0.9"));
  EXPECT_THAT(message({1000, 0.3, 0.31, kLying}), HasSubstr("corrupt + 2 dropout"));
  EXPECT_THAT(message({1000, -0.1, 0.1, kCurious}), HasSubstr("shares of the clients"));
  EXPECT_THAT(message({3, 0.1, 0.1, kCurious}), HasSubstr("needs 4 to"));
  EXPECT_THAT(message({10, 0.45, 0.45, kCurious}), HasSubstr("use the complete graph"));
}

TEST(NeighbourGraph, IsRegularAndSymmetric) {
  std::vector<std::uint32_t> order(11);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream stream({.seed = 1, .purpose = "graph"});
  stream.shuffle(std::span(order));
  for (const std::size_t k : {2U, 4U, 10U, 50U}) {
    const NeighbourGraph graph(order, k);
    for (std::uint32_t a = 0; a < 11; ++a) {
      const std::vector<std::uint32_t> near = graph.neighbours(a);
      EXPECT_EQ(near.size(), std::min<std::size_t>(k, 10));
      EXPECT_TRUE(std::is_sorted(near.begin(), near.end()));
      const std::set<std::uint32_t> distinct(near.begin(), near.end());
      EXPECT_EQ(distinct.size(), near.size());
      for (std::uint32_t b = 0; b < 11; ++b) {
        EXPECT_EQ(graph.adjacent(a, b), distinct.contains(b));
        EXPECT_EQ(graph.adjacent(a, b), graph.adjacent(b, a));
      }
    }
  }
  EXPECT_THROW(NeighbourGraph(order, 3), InternalError);
}

}  // namespace
}  // namespace chorus::inline secure_graph

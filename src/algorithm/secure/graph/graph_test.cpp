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
// google-parfait/federated-compute (fcp/secagg/server/graph_parameter_finder_test.cc). Without its degree 4 for 10
// clients of which 3 vanish: with probability 1/30 fewer than two of four neighbours would stay.
TEST(GraphFinder, EqualsPublishedDegrees) {
  struct {
    std::int64_t clients;
    double corrupt, dropout;
    ServerKind server;
    std::int64_t neighbours, threshold;
  } const cases[] = {{100, 0.45, 0.45, kCurious, 92, 46},       {1000, 0.45, 0.45, kCurious, 822, 417},
                     {10000, 0.45, 0.45, kCurious, 3494, 1771}, {10, 0.33, 0.33, kCurious, 8, 4},
                     {100, 0.33, 0.33, kCurious, 68, 34},       {1000, 0.33, 0.33, kCurious, 286, 150},
                     {10000, 0.33, 0.33, kCurious, 422, 221},   {100000, 0.33, 0.33, kCurious, 480, 251},
                     {1000000, 0.33, 0.33, kCurious, 518, 270}, {100, 0.3, 0.3, kLying, 92, 62},
                     {1000, 0.3, 0.3, kLying, 872, 584},        {10000, 0.3, 0.3, kLying, 4822, 3230},
                     {100, 0.05, 0.33, kCurious, 28, 6},        {1000, 0.05, 0.33, kCurious, 72, 24},
                     {10000, 0.05, 0.33, kCurious, 86, 29},     {100000, 0.05, 0.33, kCurious, 96, 32},
                     {1000000, 0.05, 0.33, kCurious, 102, 34},  {10, 0.05, 0.33, kLying, 8, 5},
                     {100, 0.05, 0.33, kLying, 72, 39},         {1000, 0.05, 0.33, kLying, 398, 223},
                     {10000, 0.05, 0.33, kLying, 746, 420},     {100000, 0.05, 0.33, kLying, 882, 496},
                     {1000000, 0.05, 0.33, kLying, 970, 545},   {10, 0.33, 0.05, kCurious, 4, 4},
                     {100, 0.33, 0.05, kCurious, 34, 29},       {1000, 0.33, 0.05, kCurious, 78, 60},
                     {10000, 0.33, 0.05, kCurious, 92, 70},     {100000, 0.33, 0.05, kCurious, 102, 77},
                     {1000000, 0.33, 0.05, kCurious, 110, 83},  {10, 0.33, 0.05, kLying, 4, 4},
                     {100, 0.33, 0.05, kLying, 42, 37},         {1000, 0.33, 0.05, kLying, 132, 109},
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

// Exact tails (tests/golden/make_neighbour_graphs.py). With two neighbours of which both must stay, one client of six
// that vanishes would end a third of the rounds.
TEST(GraphFinder, EqualsExactTails) {
  struct {
    std::int64_t clients, colluding, vanishing;
    ServerKind server;
    std::int64_t neighbours, threshold, near;
  } const cases[] = {
      {4, 0, 0, kCurious, 2, 2, 0},        {4, 0, 0, kLying, 2, 2, 0},           {6, 0, 1, kCurious, 4, 2, 0},
      {6, 0, 1, kLying, 4, 3, 0},          {6, 0, 2, kCurious, 4, 2, 0},         {6, 1, 2, kCurious, 4, 2, 1},
      {7, 0, 2, kCurious, 4, 2, 0},        {8, 0, 2, kCurious, 4, 2, 0},         {8, 0, 2, kLying, 6, 4, 0},
      {8, 1, 2, kCurious, 4, 2, 1},        {8, 1, 2, kLying, 6, 4, 1},           {10, 0, 3, kCurious, 6, 2, 0},
      {10, 0, 3, kLying, 8, 5, 0},         {12, 1, 3, kCurious, 6, 2, 1},        {12, 1, 3, kLying, 8, 5, 1},
      {20, 0, 4, kCurious, 6, 2, 0},       {20, 0, 4, kLying, 10, 6, 0},         {20, 2, 4, kCurious, 8, 3, 2},
      {20, 2, 4, kLying, 12, 8, 2},        {40, 4, 8, kCurious, 14, 5, 4},       {40, 4, 8, kLying, 22, 14, 4},
      {100, 10, 20, kCurious, 28, 11, 10}, {100, 10, 20, kLying, 52, 32, 10},    {200, 20, 40, kCurious, 44, 20, 19},
      {200, 20, 40, kLying, 88, 55, 20},   {1000, 50, 50, kCurious, 30, 17, 16}, {1000, 50, 50, kLying, 52, 37, 20}};
  for (const auto& c : cases) {
    const auto share = [&](std::int64_t of) { return static_cast<double>(of) / static_cast<double>(c.clients); };
    const GraphChoice choice = find_graph({c.clients, share(c.colluding), share(c.vanishing), c.server});
    EXPECT_EQ(choice.neighbours, c.neighbours) << c.clients << " " << c.colluding << " " << c.vanishing;
    EXPECT_EQ(choice.threshold, c.threshold) << c.clients << " " << c.colluding << " " << c.vanishing;
    EXPECT_EQ(choice.colluding, c.near) << c.clients << " " << c.colluding << " " << c.vanishing;
  }
}

TEST(GraphFinder, SharesAreRoundedUpToWholeClients) {
  const GraphRequest small = GraphRequest{4, 0.1, 0.3, kCurious}.in_whole_clients();
  EXPECT_EQ(small.corrupt, 0.25);
  EXPECT_EQ(small.dropout, 0.5);
  const GraphRequest whole = GraphRequest{1000, 0.05, 0.05, kLying}.in_whole_clients();
  EXPECT_EQ(whole.corrupt, 0.05);
  EXPECT_EQ(whole.server, kLying);
  EXPECT_EQ(find_graph(whole).threshold, 37);
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
  EXPECT_THAT(message({1000, 0.05, 0.05, kCurious, 201}), HasSubstr("at most 200"));
  EXPECT_THAT(message({1000, 0.05, 0.05, kCurious, 40, 1e4}), HasSubstr("at most 200"));
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

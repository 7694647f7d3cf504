#include "algorithm/federated/heterofl.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/base/error.h"

namespace chorus::inline federated {
namespace {

/// The leading elements of a vector of 8: widths 2, 4, 6, 8.
class LeadingVariants : public Variants {
 public:
  Variant whole() const override { return {1, 8}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant& variant) const override {
    return torch::arange(variant.width < 0 ? 8 : variant.width, at::kLong);
  }
};

/// Client k moves every element that it has by k + 1.
class MovingClients : public Federation {
 public:
  explicit MovingClients(std::vector<RosterEntry> members) : roster_(std::move(members)) {}
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const std::vector<ClientId> clients(cohort.begin(), cohort.end());
    const std::int64_t size = request.body.tensor("model").numel();
    for (const ClientId client : clients) asked[client] = size;
    shares.push_back(request.body.number("share"));
    return Replies([clients, size, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == clients.size()) return std::nullopt;
      Reply reply{.client = clients[next], .slot = next};
      reply.body.tensors["update"] = torch::full({size}, 1.0 + clients[next], at::kFloat);
      reply.body.numbers = {{"examples", 1.0 + clients[next]}, {"loss", 1}};
      ++next;
      return reply;
    });
  }
  std::map<ClientId, std::int64_t> asked;
  std::vector<double> shares;

 private:
  Roster roster_;
};

RosterEntry device(ClientId id, std::optional<double> capacity) {
  RosterEntry entry{.id = id, .examples = 1.0 + id};
  entry.capacity = capacity;
  return entry;
}

TEST(HeteroFl, EveryElementIsTheMeanOverTheClientsThatHaveIt) {
  MovingClients clients({device(0, 0.3), device(1, 0.6), device(2, 1.0), device(3, 0.2)});
  const LeadingVariants variants;
  const auto mean = Aggregations::make("mean");
  const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}, {3, 1}};
  at::Tensor model = torch::zeros({8});
  RoundInput input{clients, *mean, cohort, model, 1, 10};
  input.variants = &variants;
  const RoundResult result = HeteroFl({.widths = {1, 0.5, 0.25}}).round(input);
  EXPECT_EQ(clients.asked, (std::map<ClientId, std::int64_t>{{0, 2}, {1, 4}, {2, 8}}));
  EXPECT_EQ(clients.shares, (std::vector<double>{0.25, 0.5, 1}));
  ASSERT_EQ(result.failed.size(), 1U);  // no part is small enough
  EXPECT_EQ(result.failed[0].first, 3U);
  // By examples: (1 + 4 + 9) / 6, then (4 + 9) / 5, then 9 / 3.
  const double expected[] = {14.0 / 6, 14.0 / 6, 13.0 / 5, 13.0 / 5, 3, 3, 3, 3};
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_NEAR(model[i].item<double>(), expected[i], 1e-6) << i;
}

TEST(HeteroFl, PartsAreDealtEvenlyWhereCapacitiesAreUnknownAndOrderedDropoutDrawsSmallerOnes) {
  const LeadingVariants variants;
  const HeteroFl fixed({.widths = {0.25, 0.5, 1}}), ordered({.widths = {0.25, 0.5, 1}, .ordered = true});
  const auto parts = fixed.parts(variants);
  ASSERT_EQ(parts.size(), 3U);
  std::map<double, int> dealt, drawn;
  for (ClientId id = 0; id < 300; ++id) {
    const double most = fixed.part_for(device(id, {}), parts, 7, 1)->share;
    EXPECT_EQ(fixed.part_for(device(id, {}), parts, 7, 2)->share, most);  // the same in every round
    const double now = ordered.part_for(device(id, {}), parts, 7, 1)->share;
    EXPECT_LE(now, most);
    ++dealt[most];
    if (most == 1) ++drawn[now];
  }
  for (const auto& entry : dealt) EXPECT_NEAR(entry.second, 100, 30);
  EXPECT_EQ(drawn.size(), 3U);
}

}  // namespace
}  // namespace chorus::inline federated

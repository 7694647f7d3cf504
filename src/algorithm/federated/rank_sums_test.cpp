#include "algorithm/federated/rank_sums.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <deque>
#include <set>
#include <vector>

#include "algorithm/federated/mean.h"

namespace chorus::inline federated {
namespace {

constexpr std::int64_t kSize = 1000;

/// Clients whose update depends on their id; some fail.
class Updates : public Federation {
 public:
  explicit Updates(std::size_t clients) {
    std::vector<double> sizes;
    for (std::size_t i = 0; i < clients; ++i) sizes.push_back(static_cast<double>(i % 5 + 1));
    roster_ = Roster::of_sizes(sizes);
  }
  const Roster& roster() const override { return roster_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    requests.push_back(request);
    std::vector<ClientId> ids(cohort.begin(), cohort.end());
    return Replies([this, ids, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == ids.size()) return std::nullopt;
      Reply reply{ids[next], next};
      ++next;
      if (failing.contains(reply.client)) {
        reply.failure = "it is tired";
        return reply;
      }
      reply.body.tensors["update"] =
          torch::randn({kSize}, torch::make_generator<torch::CPUGeneratorImpl>(reply.client + 1));
      if (broken.contains(reply.client)) reply.body.tensors["update"][3] = std::nan("");
      reply.body.numbers = {{"examples", roster_.size_of(reply.client)}, {"loss", 1.0}};
      return reply;
    });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

  std::set<ClientId> failing = {}, broken = {};
  std::vector<Request> requests = {};

 private:
  Roster roster_;
};

/// A link to two processes: the first `cut` slots are asked at one, the others at the other.
class TwoProcesses : public Federation {
 public:
  TwoProcesses(Federation& clients, std::size_t cut) : one_(clients), two_(clients), cut_(cut) {}
  const Roster& roster() const override { return one_.roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const auto part = [&](SummingClients& process, std::size_t begin, std::size_t end) {
      Request own = request;
      if (!request.own.empty()) own.own.assign(request.own.begin() + begin, request.own.begin() + end);
      for (Reply& reply : process.ask(cohort.subspan(begin, end - begin), own)) {
        reply.slot += begin;
        tensors += reply.body.tensors.size();
        all_.push_back(std::move(reply));
      }
    };
    part(two_, cut_, cohort.size());  // the second is faster
    part(one_, 0, cut_);
    return Replies([this]() -> std::optional<Reply> {
      if (all_.empty()) return std::nullopt;
      Reply reply = std::move(all_.front());
      all_.pop_front();
      return reply;
    });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

  std::size_t tensors = 0;  // that travelled

 private:
  SummingClients one_, two_;
  std::size_t cut_;
  std::deque<Reply> all_;
};

Aggregated mean_over(Federation& federation, std::size_t clients) {
  std::vector<Member> cohort;
  for (std::size_t i = 0; i < clients; ++i)
    cohort.push_back({static_cast<ClientId>((i * 7) % clients), static_cast<double>(1 + i % 3)});
  AggregationInput input{.federation = federation, .cohort = cohort, .request = {.procedure = "train"}};
  input.size = kSize;
  return Mean().aggregate(std::move(input));
}

TEST(RankSums, HaveTheBitsOfSingleUpdates) {
  for (const std::size_t clients : {3U, 8U, 9U, 41U}) {
    Updates updates(clients);
    updates.failing = {1};
    updates.broken = {2};
    const Aggregated direct = mean_over(updates, clients);
    for (const std::size_t cut : {std::size_t{0}, clients / 2, clients}) {
      TwoProcesses processes(updates, cut);
      RankSums sums(processes);
      const Aggregated summed = mean_over(sums, clients);
      EXPECT_TRUE(torch::equal(direct.means[0], summed.means[0])) << clients << " clients, cut at " << cut;
      for (std::size_t slot = 0; slot < clients; ++slot) {
        EXPECT_EQ(direct.clients[slot].failure, summed.clients[slot].failure);
        EXPECT_EQ(direct.clients[slot].weight, summed.clients[slot].weight);
      }
    }
  }
}

TEST(RankSums, SendOneVectorForEightNeighbours) {
  Updates updates(40);
  TwoProcesses processes(updates, 20);  // cuts the third of five groups
  RankSums sums(processes);
  (void)mean_over(sums, 40);
  EXPECT_EQ(processes.tensors, 4U + 8U);
  EXPECT_TRUE(updates.requests[0].body.texts.empty());  // clients do not see it
}

TEST(RankSums, AreNotWishedForWhereSomebodyLooksAtUpdates) {
  Updates updates(16);
  TwoProcesses processes(updates, 8);
  RankSums sums(processes);
  std::vector<Member> cohort;
  for (ClientId id = 0; id < 16; ++id) cohort.push_back({id, 1});
  AggregationInput input{.federation = sums, .cohort = cohort, .request = {.procedure = "train"}};
  input.size = kSize;
  std::size_t seen = 0;
  input.look = [&](Reply& reply, double) { seen += reply.body.tensors.contains("update") ? 1U : 0U; };
  EXPECT_TRUE(Mean().aggregate(std::move(input)).means[0].defined());
  EXPECT_EQ(seen, 16U);
}

TEST(RankSums, AllClientsOfAProcessMayFail) {
  Updates updates(16);
  for (ClientId id = 0; id < 16; ++id) updates.failing.insert(id);
  TwoProcesses processes(updates, 8);
  RankSums sums(processes);
  EXPECT_FALSE(mean_over(sums, 16).means[0].defined());
}

}  // namespace
}  // namespace chorus::inline federated

#include "algorithm/split/split_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace chorus::inline split {
namespace {

/// The server's part is one number, which every batch raises by 1.
class CountingServer : public SplitServer {
 public:
  explicit CountingServer(const at::Tensor& start) : values_(start.clone()) {}
  void begin(std::int64_t) override {}
  Message answer(ClientId, const Message&) override {
    values_ += 1;
    return {};
  }
  Message forward(ClientId, const Message&) override { return {}; }
  Message backward(const Message&) override { return {}; }
  at::Tensor values() const override { return values_; }
  double last_loss() const override { return 1; }
  double memory() const override { return 0; }

 private:
  at::Tensor values_;
};

class CountingDesk : public SplitDesk {
 public:
  SplitParts parts(const SplitCut&) const override {
    return {.client = torch::tensor({0}, at::kLong), .server = torch::tensor({1}, at::kLong), .client_share = 0.5};
  }
  std::unique_ptr<SplitServer> server(const SplitCut&, const at::Tensor& start, std::uint64_t) const override {
    return std::make_unique<CountingServer>(start);
  }
};

/// Two clients that announce two batches. The second one never finishes.
class OneEndless : public Federation {
 public:
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request) override {
    std::vector<Reply> replies;
    for (const ClientId id : cohort) {
      Reply reply{.client = id, .slot = replies.size()};
      reply.body.numbers = {{"steps", 2}, {"examples", 4}, {"loss", 1}, {"batches", 1}};
      const bool last = id == 0 && ++asked[id] == 3;
      reply.body.tensors[last ? "update" : "activations"] = torch::ones({1});
      if (id == 1 && ++asked[id] > 100) throw std::runtime_error("the round has no end");
      replies.push_back(std::move(reply));
    }
    return Replies([replies = std::move(replies), next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == replies.size()) return std::nullopt;
      return std::move(replies[next++]);
    });
  }

  std::map<ClientId, int> asked;

 private:
  Roster roster_ = Roster::of_sizes(std::vector<double>{4, 4});
};

TEST(SplitLearning, AClientThatNeverFinishesIsLeftOut) {
  const CountingDesk desk;
  const auto mean = Aggregations::make("mean");
  const std::vector<Member> cohort{{0, 1}, {1, 1}};
  for (const char* name : {"splitnn", "splitfed"}) {
    OneEndless clients;
    const auto algorithm = Algorithms::make(name);
    algorithm->prepare_split(desk);
    at::Tensor model = torch::zeros({2}, at::kFloat);
    RoundInput input{clients, *mean, cohort, model, 1, 10};
    input.split = &desk;
    const RoundResult result = algorithm->round(input);
    ASSERT_EQ(result.failed.size(), 1U) << name;
    EXPECT_EQ(result.failed[0], std::pair(ClientId{1}, std::string("it sends more batches than it said"))) << name;
    EXPECT_EQ(clients.asked[1], 3) << name;
    EXPECT_EQ(model[0].item<float>(), 1) << name << ": the other one's update counts";
  }
}

}  // namespace
}  // namespace chorus::inline split

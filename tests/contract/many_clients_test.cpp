// A server and 64 clients over gRPC in one process, each client on a thread of its own: what the thread sanitizer looks
// at
// (`make test PRESET=tsan`, or this target alone). Clients come and go, and every sum is exact.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <thread>

#include "core/console/quiet_console.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"
#include "infrastructure/transport/grpc/grpc_transport.h"

namespace chorus::inline contract {
namespace {

constexpr ClientId kMany = 64;
constexpr std::int64_t kLength = 20'000;  // several chunks
constexpr std::uint64_t kManyRounds = 5;

/// Answers with its id, and counts the states it was told to keep.
class CountingClient : public Federation {
 public:
  explicit CountingClient(ClientId id) : roster_({{.id = id, .examples = 1}}) {}
  const Roster& roster() const override { return roster_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return Replies([this, id = cohort.front(), model = request.body.tensor("model"),
                    done = false]() mutable -> std::optional<Reply> {
      if (std::exchange(done, true)) return std::nullopt;
      Reply reply{id, 0};
      reply.body.tensors["update"] = model + static_cast<double>(id);
      reply.on_accept = [this] { ++kept; };
      return reply;
    });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

  std::atomic<int> kept = 0;

 private:
  Roster roster_;
};

TEST(ManyClients, SumsAreExactWhileClientsComeAndGo) {
  const QuietConsole quiet;
  GrpcConfig config;
  config.grace = 0.2;
  config.chunk = 16;
  config.retry = 0.5;
  GrpcTransport transport(config);
  auto server = transport.listen();
  config.address = transport.address();
  std::atomic<bool> over = false;
  std::vector<std::unique_ptr<CountingClient>> clients;
  std::vector<std::thread> threads;
  for (ClientId id = 0; id < kMany; ++id) clients.push_back(std::make_unique<CountingClient>(id));
  for (ClientId id = 0; id < kMany; ++id) {
    threads.emplace_back([&, id] {
      while (!over) {
        const auto end = GrpcTransport(config).connect();
        int replies = 0;
        ClientServiceHooks hooks;
        hooks.sending = [&](const Frame& frame, const FrameBytes&) {
          replies += std::holds_alternative<ReplyFrame>(frame) ? 1 : 0;
        };
        // One in eight leaves after each reply and connects again.
        hooks.stop = [&] { return over.load() || (id % 8 == 0 && replies > 0); };
        ClientService(*end, *clients[id], hooks).run();
      }
    });
  }
  std::size_t answers = 0;
  {
    RemoteFederation federation({*server, 1, 2});
    for (std::uint64_t round = 1; round <= kManyRounds; ++round) {
      ASSERT_TRUE(federation.wait_for(kMany - kMany / 8, 60));
      std::vector<ClientId> cohort;
      for (const RosterEntry& entry : federation.roster().members()) {
        if (entry.alive) cohort.push_back(entry.id);
      }
      Request request{.procedure = "train", .round = round};
      request.body.tensors["model"] = torch::full({kLength}, static_cast<double>(round), at::kFloat);
      request.deadline = 60;
      at::Tensor sum = torch::zeros({kLength}), expected = torch::zeros({kLength});
      for (Reply& reply : federation.ask(cohort, std::move(request))) {
        if (!reply.ok()) continue;
        sum += reply.body.vector("update", kLength);
        expected += static_cast<double>(round) + static_cast<double>(reply.client);
        reply.accept();
        ++answers;
      }
      EXPECT_TRUE(sum.equal(expected)) << round;
    }
  }
  EXPECT_GE(answers, kManyRounds * (kMany - kMany / 8) / 2);
  over = true;
  server.reset();
  for (std::thread& thread : threads) thread.join();
  int kept = 0;
  for (const auto& client : clients) kept += client->kept;
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace chorus::inline contract

// The server's and the clients' real state machines over a network that loses, repeats, reorders, delays and damages
// letters and cuts connections. Whatever happens, a reply that counts is exactly what its client sent, and counts once.
// CHORUS_FAULT_SEEDS=1000 tries as many seeds (ten minutes).
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <cstdlib>
#include <set>

#include "core/console/quiet_console.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"
#include "tests/contract/faulty_network.h"

namespace chorus::inline contract {
namespace {

constexpr ClientId kClients = 4;
constexpr std::int64_t kElements = 3000;  // several letters
constexpr std::uint64_t kRounds = 4;
constexpr double kDeadline = 0.25;

at::Tensor update_of(ClientId client, std::uint64_t round) {
  return torch::arange(kElements, at::kFloat).mul_(static_cast<double>(client + 1)).add_(static_cast<double>(round));
}

/// One client whose update says who it is and in which round.
class KnownClient : public Federation {
 public:
  explicit KnownClient(ClientId id) : roster_({{.id = id, .examples = 1}}) {}
  const Roster& roster() const override { return roster_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return Replies([this, id = cohort.front(), round = request.round, done = false]() mutable -> std::optional<Reply> {
      if (std::exchange(done, true)) return std::nullopt;
      Reply reply{id, 0};
      reply.body.tensors["update"] = update_of(id, round);
      reply.on_accept = [this, round] { kept.insert(round); };
      return reply;
    });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

  std::multiset<std::uint64_t> kept;  // rounds whose state it kept
  std::set<std::uint64_t> replied;    // numbers of requests
  std::set<std::uint64_t> built_on;   // numbers of requests whose states it was told to build on

 private:
  Roster roster_;
};

struct Outcome {
  std::size_t replies = 0, failures = 0;
};

Outcome try_seed(std::uint64_t seed) {
  Faults faults;
  RandomStream stream({.seed = seed, .purpose = "faults"});
  for (double* rate : {&faults.drop, &faults.duplicate, &faults.delay, &faults.damage, &faults.disconnect}) {
    *rate = stream.below(2) == 0 ? 0 : 0.04 * stream.uniform();
  }
  FaultyNetwork network(seed, faults);
  const MailConfig config{.chunk = 2048, .patience = 1};
  auto server = make_mail_server(network.mailbox("server"), config);
  std::atomic<bool> over = false;
  std::vector<std::unique_ptr<KnownClient>> clients;
  std::vector<std::thread> threads;
  for (ClientId id = 0; id < kClients; ++id) clients.push_back(std::make_unique<KnownClient>(id));
  for (ClientId id = 0; id < kClients; ++id) {
    threads.emplace_back([&, id] {
      for (int visit = 0; !over; ++visit) {
        const auto end =
            make_mail_client(network.mailbox("client" + std::to_string(id) + "." + std::to_string(visit)), config);
        ClientServiceHooks hooks;
        hooks.asked = [&client = *clients[id]](const CohortFrame& cohort) {
          client.built_on.insert(cohort.members.front().kept);
          client.replied.insert(cohort.number);
        };
        hooks.stop = [&over] { return over.load(); };
        ClientService(*end, *clients[id], hooks).run();
      }
    });
  }
  Outcome outcome;
  std::map<ClientId, std::multiset<std::uint64_t>> accepted;
  {
    RemoteFederationInput input{*server, 1, 2};
    input.patience = kDeadline;
    RemoteFederation federation(input);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      (void)federation.wait_for(kClients, kDeadline);
      std::vector<ClientId> cohort;
      for (const RosterEntry& entry : federation.roster().members()) cohort.push_back(entry.id);
      Request request{.procedure = "train", .round = round};
      request.deadline = kDeadline;
      at::Tensor sum = torch::zeros({kElements}), expected = torch::zeros({kElements});
      std::set<ClientId> seen;
      for (Reply& reply : federation.ask(cohort, std::move(request))) {
        EXPECT_TRUE(seen.insert(reply.client).second) << "seed " << seed << ": a client counts twice";
        if (!reply.ok()) {
          ++outcome.failures;
          continue;
        }
        ++outcome.replies;
        sum += reply.body.vector("update", kElements);
        expected += update_of(reply.client, round);
        accepted[reply.client].insert(round);
        reply.accept();
      }
      EXPECT_TRUE(sum.equal(expected)) << "seed " << seed << ", round " << round;
    }
  }
  over = true;
  server.reset();
  for (std::thread& thread : threads) thread.join();
  for (ClientId id = 0; id < kClients; ++id) {
    for (const std::uint64_t number : clients[id]->built_on) {
      EXPECT_TRUE(number == 0 || clients[id]->replied.contains(number)) << "seed " << seed << ": a state nobody has";
    }
    for (const std::uint64_t round : clients[id]->kept) {
      EXPECT_EQ(clients[id]->kept.count(round), 1U) << "seed " << seed << ": a state was kept twice";
      EXPECT_TRUE(accepted[id].contains(round)) << "seed " << seed << ": a state was kept that nobody accepted";
    }
  }
  return outcome;
}

TEST(FaultyNetworks, GiveTheExactSumOfThoseWhoAnswered) {
  const QuietConsole quiet;
  const char* wanted = std::getenv("CHORUS_FAULT_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 8;
  Outcome all;
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    const Outcome one = try_seed(seed);
    all.replies += one.replies;
    all.failures += one.failures;
  }
  EXPECT_GT(all.replies, 0U);
  EXPECT_GT(all.failures, 0U) << "no fault had an effect, so nothing was tested";
}

}  // namespace
}  // namespace chorus::inline contract

// Whole secure sums over a network that loses, repeats, delays, changes and replays messages, with a server that lies
// in some of them, and random bytes into both state machines. The network is drawn from a seed; keys are not.
#include <gtest/gtest.h>

#include <deque>

#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

class Network {
 public:
  explicit Network(std::uint64_t seed) : stream_({.seed = seed, .purpose = "network"}) {
    const double trouble = seed % 4 == 0 ? 0 : 0.08 * stream_.uniform();
    lose_ = repeat_ = change_ = replay_ = trouble;
  }

  /// What arrives when these messages are sent.
  std::vector<std::pair<ClientId, Bytes>> carry(const std::vector<std::pair<ClientId, Bytes>>& sent) {
    std::vector<std::pair<ClientId, Bytes>> arrives;
    for (const auto& [id, message] : sent) {
      past_.push_back({id, message});
      if (stream_.uniform() < lose_) continue;
      Bytes bytes = message;
      if (stream_.uniform() < change_) {
        bytes[stream_.below(bytes.size())] ^= static_cast<std::byte>(1U << stream_.below(8));
      }
      if (stream_.uniform() < change_ / 4) bytes.resize(stream_.below(bytes.size() + 1));
      arrives.push_back({id, bytes});
      if (stream_.uniform() < repeat_) arrives.push_back({id, bytes});
      if (stream_.uniform() < replay_) arrives.push_back(past_[stream_.below(past_.size())]);
    }
    stream_.shuffle(std::span(arrives));
    return arrives;
  }
  RandomStream& stream() { return stream_; }

 private:
  RandomStream stream_;
  double lose_ = 0, repeat_ = 0, change_ = 0, replay_ = 0;
  std::deque<std::pair<ClientId, Bytes>> past_;
};

/// What a lying server makes of its messages: other survivors, keys, shares or signatures for some clients.
void lie(std::vector<std::pair<ClientId, Bytes>>& messages, RandomStream& stream) {
  for (auto& [id, message] : messages) {
    if (stream.uniform() < 0.5) continue;
    const MessageHead head = *read_head(message);
    if (head.type == MessageType::kSurvivors) {
      auto list = *read_survivors(message);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(stream.below(list.size())));
      message = write_survivors(head, list);
    } else if (head.type == MessageType::kKeys) {
      auto list = *read_keys(message);
      list[stream.below(list.size())].sealing = new_agreement_keys().open;
      message = write_keys(head, list);
    } else if (head.type == MessageType::kForwarded) {
      auto list = *read_shares(message);
      if (!list.empty()) std::swap(list.front().sealed, list.back().sealed);
      message = write_shares(head, list);
    } else if (head.type == MessageType::kSignatures) {
      auto list = *read_signatures(message);
      if (!list.empty()) list.resize(stream.below(list.size()) + 1);
      message = write_signatures(head, list);
    }
  }
}

struct Outcome {
  bool sum = false;
};

Outcome run_seed(std::uint64_t seed) {
  static const CheckedInputs kInputs;
  const Trust trust = seed % 3 == 0 ? Trust::kSemiHonest : Trust::kActive;
  const bool lying = trust == Trust::kActive && seed % 5 == 1;
  const bool sparse = seed % 4 == 2;
  const std::size_t clients = sparse ? 8 : 4 + seed % 3;
  SumWorld world(clients, sparse ? ring_of_four(trust) : complete_graph(clients, trust));
  std::map<ClientId, std::unique_ptr<SumClient>> members;
  for (const ClientId id : world.session.cohort) {
    const Secret<64>* identity = trust == Trust::kActive ? &world.identities[id]->secret : nullptr;
    members[id] = std::make_unique<SumClient>(world.session, id, identity, kInputs.of(id));
  }
  Network network(seed);
  std::vector<std::pair<ClientId, Bytes>> up;
  for (const auto& [id, member] : members) up.push_back({id, member->advertise()});
  Outcome outcome;
  while (true) {
    // Two tries, as clients send again what was not confirmed.
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (const auto& [from, message] : network.carry(up)) world.deliver(from, message);
    }
    const auto next = world.server->close();
    if (!next.ok()) break;
    if (world.server->phase() == SumServer::Phase::kDone) {
      outcome.sum = true;
      break;
    }
    std::vector<std::pair<ClientId, Bytes>> down;
    for (const auto& [to, message] : next.value()) down.push_back({to, *message});
    if (lying) lie(down, network.stream());
    up.clear();
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (const auto& [to, message] : network.carry(down)) {
        auto reply = members[to]->receive(message);
        if (reply.ok()) up.push_back({to, reply.value()});
      }
    }
  }
  EXPECT_TRUE(world.transcript.exposed().empty()) << "seed " << seed;
  if (!outcome.sum) return outcome;
  const auto mean = kInputs.scale.decode(world.server->sum(), world.server->survivors().size());
  RingVector plain(32, SumWorld::kLength);
  for (const ClientId id : world.server->survivors()) plain.add(kInputs.of(id));
  // Exact, or noticed.
  EXPECT_EQ(mean.ok(), world.server->sum() == plain) << "seed " << seed;
  outcome.sum = mean.ok();
  return outcome;
}

TEST(HostileNetwork, TheSumIsExactOrThereIsNone) {
  const std::size_t count = secure_cases(250);
  std::size_t sums = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) sums += run_seed(seed).sum ? 1 : 0;
  EXPECT_GT(sums, count / 5);
  EXPECT_LT(sums, count);
}

/// Bytes that are nearly messages: heads that are right, and bodies that are not.
Bytes nearly(RandomStream& stream, const Bytes& like) {
  Bytes bytes = like;
  for (std::uint64_t i = 0, n = 1 + stream.below(4); i < n && !bytes.empty(); ++i) {
    switch (stream.below(4)) {
      case 0:
        bytes[stream.below(bytes.size())] = static_cast<std::byte>(stream.below(256));
        break;
      case 1:
        bytes.resize(stream.below(bytes.size() + 1));
        break;
      case 2:
        bytes.insert(bytes.end(), stream.below(200), static_cast<std::byte>(stream.below(256)));
        break;
      default:
        bytes[1] = static_cast<std::byte>(stream.below(12));
    }
  }
  return bytes;
}

TEST(HostileNetwork, RandomBytesNeverCrashOrUnlockAnything) {
  RandomStream stream({.seed = 4, .purpose = "fuzz"});
  const std::size_t count = secure_cases(60);
  for (std::size_t i = 0; i < count; ++i) {
    const Trust trust = i % 2 == 0 ? Trust::kActive : Trust::kSemiHonest;
    SumWorld world(i % 3 == 0 ? 7 : 4, i % 3 == 0 ? ring_of_four(trust) : complete_graph(4, trust));
    world.advertise(always);
    for (std::size_t phase = 1; phase <= world.phases(); ++phase) {
      auto out = world.server->close();
      if (!out.ok() || world.server->phase() == SumServer::Phase::kDone) break;
      for (const auto& [id, message] : out.value()) {
        for (int k = 0; k < 20; ++k) {
          const Bytes bytes = nearly(stream, *message);
          if (bytes == *message) continue;
          const auto reply = world.client(id).receive(bytes);
          if (reply.ok()) world.transcript.see(id, reply.value());
        }
        const auto reply = world.client(id).receive(*message);
        if (!reply.ok()) continue;
        for (int k = 0; k < 20; ++k) {
          const Bytes bytes = nearly(stream, reply.value());
          if (bytes != reply.value()) static_cast<void>(world.server->receive(id, bytes));
        }
        world.deliver(id, reply.value());
      }
    }
    EXPECT_TRUE(world.transcript.exposed().empty()) << i;
  }
}

}  // namespace
}  // namespace chorus::inline secure

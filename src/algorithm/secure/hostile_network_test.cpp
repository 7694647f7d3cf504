// Whole secure sums over a network that loses, repeats, delays, changes and replays messages, with a server that lies
// in some of them, and damaged bytes into both state machines, phase by phase. The network is drawn from a seed; keys
// are not.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <numeric>

#include "tests/any_sum.h"

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

/// Whether there was a sum. Every fifth is LightSecAgg's.
bool run_seed(std::uint64_t seed) {
  const bool light = seed % 5 == 3;  // it bears no server that lies
  const Trust trust = light || seed % 3 == 0 ? Trust::kSemiHonest : Trust::kActive;
  const bool lying = trust == Trust::kActive && seed % 5 == 1;
  const bool sparse = !light && seed % 4 == 2;
  const std::size_t clients = sparse ? 8 : 4 + seed % 3;
  AnySum sum(light    ? light_parameters(clients, 0.2, 0.3)
             : sparse ? ring_of_four(trust)
                      : complete_graph(clients, trust),
             clients, light);
  Network network(seed);
  std::vector<std::pair<ClientId, Bytes>> up;
  for (const auto& [id, party] : sum.parties) up.push_back({id, party->advertise()});
  Transcript revealed;  // by clients: what arrives of it may be damaged
  while (true) {
    // Two tries, as clients send again what was not confirmed.
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (const auto& [from, message] : network.carry(up)) (void)sum.host->receive(from, message).ok();
    }
    const auto next = sum.host->close();
    if (!next.ok() || sum.host->done()) break;
    std::vector<std::pair<ClientId, Bytes>> down;
    for (const auto& [to, message] : next.value()) down.push_back({to, *message});
    if (lying) lie(down, network.stream());
    up.clear();
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (const auto& [to, message] : network.carry(down)) {
        auto reply = sum.parties[to]->receive(message);
        if (!reply.ok()) continue;
        revealed.see(to, reply.value());
        up.push_back({to, reply.value()});
      }
    }
  }
  EXPECT_TRUE(revealed.exposed().empty()) << "seed " << seed;
  // Exact, or noticed.
  EXPECT_TRUE(!sum.host->done() || sum.usable() == sum.exact()) << "seed " << seed;
  return sum.usable();
}

TEST(HostileNetwork, TheSumIsExactOrThereIsNone) {
  const std::size_t count = secure_cases(250);
  std::array<std::size_t, 5> sums{};  // by the seed's rest, and so by protocol
  for (std::uint64_t seed = 0; seed < count; ++seed) sums[seed % 5] += run_seed(seed) ? 1 : 0;
  for (const std::size_t of_kind : sums) {
    EXPECT_GT(of_kind, count / 50);
    EXPECT_LT(of_kind, count / 5);
  }
  EXPECT_GT(std::accumulate(sums.begin(), sums.end(), std::size_t{0}), count / 5);
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

void expect_sum_of_all(const AnySum& sum) {
  ASSERT_TRUE(sum.host->done());
  EXPECT_EQ(sum.host->survivors(), sum.session.cohort);
  EXPECT_TRUE(sum.exact());
}

// Every message of the server is cut off at every byte and changed in every byte, without a new end. Four bytes less
// would be a shorter list of survivors.
TEST(HostileNetwork, DamagedMessagesChangeNothingAndTheSumIsExact) {
  for (int kind = 0; kind < PausedSum::kKinds; ++kind) {
    for (std::size_t phase = 1; phase <= PausedSum::phases(kind); ++phase) {
      PausedSum paused(kind, phase);
      for (const auto& [id, message] : paused.down) {
        PhasedClient& party = *paused.sum.parties[id];
        const auto before = party.state();
        for (std::size_t at = 0; at < message->size(); ++at) {
          EXPECT_FALSE(party.receive(ByteView(*message).first(at)).ok()) << kind << " " << phase << " " << at;
          Bytes changed = *message;
          changed[at] ^= static_cast<std::byte>(1U << at % 8);
          EXPECT_FALSE(party.receive(changed).ok()) << kind << " " << phase << " " << at;
        }
        EXPECT_EQ(party.state(), before);
      }
      paused.reply();
      paused.finish();
      expect_sum_of_all(paused.sum);
    }
  }
}

// Both sides say so, and the message is ignored as damage is.
TEST(HostileNetwork, AMessageOfAnotherVersionIsCalledThat) {
  for (int kind = 0; kind < PausedSum::kKinds; ++kind) {
    PausedSum paused(kind, 1);
    const auto as = [](Bytes message, std::uint8_t version) {
      message[0] = static_cast<std::byte>(version);
      return message;
    };
    const auto& [to, down] = *paused.down.begin();
    const auto read = [&](const Bytes& message) { return paused.sum.parties[to]->receive(message).failure().message; };
    EXPECT_EQ(read(as(*down, 1)),
              "a message of secure sums of version 1, and this side has version 2; upgrade chorus on the other side");
    EXPECT_EQ(read(as(*down, 3)),
              "a message of secure sums of version 3, and this side has version 2; upgrade chorus on this side");
    EXPECT_EQ(read(as(*down, 200)), "not a message of a secure sum");
    EXPECT_EQ(read({std::byte{1}}), "not a message of a secure sum");
    paused.reply();
    const auto& [from, up] = *paused.up.begin();
    EXPECT_EQ(paused.sum.host->receive(from, as(up, 1)).failure().message,
              "a message of secure sums of version 1, and this side has version 2; upgrade chorus on the other side");
    paused.finish();
    expect_sum_of_all(paused.sum);
  }
}

// With a right end, each damaged message to a client of its own: each phase's reader sees damage.
TEST(HostileNetwork, RandomBytesFromTheServerNeverCrashOrUnlockAnything) {
  RandomStream stream({.seed = 4, .purpose = "fuzz"});
  const std::size_t count = secure_cases(12);
  for (int kind = 0; kind < PausedSum::kKinds; ++kind) {
    for (std::size_t phase = 1; phase <= PausedSum::phases(kind); ++phase) {
      std::size_t aborted = 0;
      for (std::size_t i = 0; i < count; ++i) {
        PausedSum paused(kind, phase);
        for (const auto& [id, message] : paused.down) {
          PhasedClient& party = *paused.sum.parties[id];
          const Bytes bytes = with_right_end(nearly(stream, *message));
          const auto before = party.state();
          const auto reply = party.receive(bytes);
          const auto after = party.state();
          EXPECT_TRUE(reply.ok() || after == before || after == PhasedClient::State::kAborted);
          if (after != PhasedClient::State::kAborted) continue;
          ++aborted;  // only because of what it has read
          EXPECT_FALSE(party.receive(*message).ok());
        }
      }
      EXPECT_GE(aborted, count / 4) << "kind " << kind << ", phase " << phase;
    }
  }
}

TEST(HostileNetwork, RandomBytesFromAnActiveServerExposeNobody) {
  RandomStream stream({.seed = 5, .purpose = "fuzz"});
  const std::size_t count = secure_cases(20);
  std::size_t revealed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int kind = i % 2 == 0 ? PausedSum::kActive : PausedSum::kSparseActive;
    PausedSum paused(kind, 1 + i % 4);
    Transcript transcript;
    const std::size_t victim = stream.below(paused.down.size());
    std::size_t place = 0;
    for (const auto& [id, message] : paused.down) {
      const bool lied = place++ == victim;
      const auto reply = paused.sum.parties[id]->receive(lied ? with_right_end(nearly(stream, *message)) : *message);
      if (reply.ok()) paused.up[id] = reply.value();
    }
    while (!paused.sum.host->done()) {
      for (const auto& [id, message] : paused.up) transcript.see(id, message);
      paused.deliver();
      const auto next = paused.sum.host->close();
      if (!next.ok()) break;
      paused.up.clear();
      for (const auto& [id, message] : next.value()) {
        const auto reply = paused.sum.parties[id]->receive(*message);
        if (reply.ok()) paused.up[id] = reply.value();
      }
    }
    revealed += transcript.empty() ? 0 : 1;
    EXPECT_TRUE(transcript.exposed().empty()) << i;
    EXPECT_TRUE(!paused.sum.usable() || paused.sum.exact()) << i;
  }
  EXPECT_GT(revealed, count / 4);
}

// Damaged messages reach the reader of each phase: those with a right header that are refused nevertheless.
TEST(HostileNetwork, RandomBytesFromClientsAreRefusedAndTheSumIsExact) {
  RandomStream stream({.seed = 6, .purpose = "fuzz"});
  const std::size_t count = secure_cases(6);
  for (int kind = 0; kind < PausedSum::kKinds; ++kind) {
    for (std::size_t phase = 0; phase <= PausedSum::phases(kind); ++phase) {
      std::size_t read = 0;
      for (std::size_t i = 0; i < count; ++i) {
        PausedSum paused(kind, phase);
        if (phase > 0) paused.reply();
        bool accepted = false;  // nobody knows what a client wanted to send
        for (const auto& [id, message] : paused.up) {
          for (int k = 0; k < 10 && !accepted; ++k) {
            const Bytes bytes = nearly(stream, message);
            if (bytes == message) continue;
            const auto answer = paused.sum.host->receive(id, bytes);
            accepted = answer.ok();
            const bool head =
                bytes.size() >= kHeadBytes && std::equal(bytes.begin(), bytes.begin() + kHeadBytes, message.begin());
            if (!accepted && head) ++read;
          }
        }
        paused.finish();
        if (accepted) {
          EXPECT_TRUE(!paused.sum.usable() || paused.sum.exact());
        } else {
          expect_sum_of_all(paused.sum);
        }
      }
      EXPECT_GE(read, count) << "kind " << kind << ", phase " << phase;
    }
  }
}

}  // namespace
}  // namespace chorus::inline secure

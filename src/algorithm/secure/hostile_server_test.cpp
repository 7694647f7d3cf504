// Clients of a secure sum against a server that lies, and the server against clients that do: SECURITY.md 1.6, mistakes
// 1, 2, 6, 10, 11 and 12, and 4c, cases 5 to 13.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/any_sum.h"
#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

using State = SumClient::State;

constexpr std::size_t kClients = 6;

/// A world in which the server has just sent the messages of `phase`, and nobody has received them.
struct Moment {
  Moment(Trust trust, std::size_t phase) : world(kClients, complete_graph(kClients, trust)) {
    world.advertise(always);
    for (std::size_t p = 1; p < phase; ++p) EXPECT_TRUE(world.step(p, always));
    EXPECT_TRUE(world.step(phase, [](ClientId, std::size_t) { return false; }));
    messages = world.sent[phase];
  }
  ClientId id(std::size_t i) const { return world.id(i); }
  SumClient& client(std::size_t i) { return world.client(world.id(i)); }
  const Bytes& message(std::size_t i) { return messages.at(world.id(i)); }
  MessageHead head(std::size_t i) { return *read_head(message(i)); }
  /// Client i gets the message and gives up; nothing is answered any more, not even what was right.
  void expect_abort(std::size_t i, const Bytes& lie, const char* reason) {
    const auto reply = client(i).receive(lie);
    EXPECT_FALSE(reply.ok());
    EXPECT_EQ(client(i).state(), State::kAborted);
    EXPECT_THAT(client(i).abort_reason(), testing::HasSubstr(reason));
    EXPECT_FALSE(client(i).receive(message(i)).ok());
  }

  SumWorld world;
  std::map<ClientId, Bytes> messages;
};

// 4c, case 5, and 1.6, mistake 1.
TEST(HostileServer, Case5Mistake1ASecondUnmaskRequestIsRefused) {
  Moment moment(Trust::kSemiHonest, 3);
  const auto first = moment.client(0).receive(moment.message(0));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(moment.client(0).state(), State::kDone);
  // The same request again: the same bytes, nothing new.
  EXPECT_EQ(moment.client(0).receive(moment.message(0)).value(), first.value());
  std::vector<ClientId> fewer = *read_survivors(moment.message(0));
  fewer.erase(fewer.begin() + 2);
  moment.expect_abort(0, write_survivors(moment.head(0), fewer), "a second list of survivors");
  moment.world.transcript.see(moment.id(0), first.value());
  EXPECT_TRUE(moment.world.transcript.exposed().empty());
}

TEST(HostileServer, Case5TwoListsBeforeTheSignaturesAreRefused) {
  Moment moment(Trust::kActive, 3);
  ASSERT_TRUE(moment.client(0).receive(moment.message(0)).ok());
  std::vector<ClientId> fewer = *read_survivors(moment.message(0));
  fewer.pop_back();
  moment.expect_abort(0, write_survivors(moment.head(0), fewer), "a second list of survivors");
}

// 4c, case 6. There is one list, so nobody can be alive and dead at once.
TEST(HostileServer, Case6ImpossibleSurvivorsAreRefused) {
  const std::vector<ClientId> all = *read_survivors(Moment(Trust::kSemiHonest, 3).message(0));
  const auto with = [&](std::vector<ClientId> list, const char* reason) {
    Moment moment(Trust::kSemiHonest, 3);
    moment.expect_abort(1, write_survivors(moment.head(1), list), reason);
  };
  std::vector<ClientId> list = all;
  list.erase(list.begin() + 1);
  with(list, "said to have vanished");
  list = all;
  list.push_back(1000);
  with(list, "a survivor without keys");
  list = all;
  list.insert(list.begin() + 3, list[3]);
  with(list, "could not be read");
  with({all[0], all[1]}, "fewer survivors than the least cohort");
  with({}, "fewer survivors than the least cohort");
}

TEST(HostileServer, Case6ASurvivorThatSharedNothingIsRefused) {
  SumWorld world(kClients, complete_graph(kClients, Trust::kSemiHonest));
  const ClientId silent = world.id(3);
  const auto alive = [&](ClientId id, std::size_t phase) { return id != silent || phase < 1; };
  world.advertise(alive);
  for (std::size_t phase = 1; phase < 3; ++phase) ASSERT_TRUE(world.step(phase, alive));
  ASSERT_TRUE(world.step(3, [](ClientId, std::size_t) { return false; }));
  const Bytes& honest = world.sent[3][world.id(0)];
  SumClient& client = world.client(world.id(0));
  EXPECT_FALSE(client.receive(write_survivors(*read_head(honest), world.session.cohort)).ok());
  EXPECT_THAT(client.abort_reason(), testing::HasSubstr("had shared no keys"));
}

// 4c, case 7, and 1.6, mistake 2: half of the clients are told that client 0 vanished, the others that it survived.
TEST(HostileServer, Case7Mistake2ASplitViewRevealsNothing) {
  Moment moment(Trust::kActive, 3);
  const std::vector<ClientId> all = *read_survivors(moment.message(1));
  const std::vector<ClientId> without(all.begin() + 1, all.end());
  std::map<ClientId, Signature> signatures;
  for (std::size_t i = 1; i < kClients; ++i) {
    const auto reply = moment.client(i).receive(write_survivors(moment.head(i), i % 2 == 0 ? all : without));
    ASSERT_TRUE(reply.ok());
    signatures[moment.id(i)] = *read_signature(reply.value());
  }
  const Digest session = moment.head(1).tag;
  for (std::size_t i = 1; i < kClients; ++i) {
    std::vector<SignedBy> others;
    for (const auto& [id, signature] : signatures) {
      if (id != moment.id(i)) others.push_back({id, signature});
    }
    const auto reply =
        moment.client(i).receive(write_signatures({MessageType::kSignatures, moment.id(i), session}, others));
    EXPECT_FALSE(reply.ok());
    EXPECT_THAT(moment.client(i).abort_reason(), testing::HasSubstr("told of other survivors"));
  }
  EXPECT_TRUE(moment.world.transcript.empty());
}

TEST(HostileServer, Case7TooFewSignaturesRevealNothing) {
  Moment moment(Trust::kActive, 4);
  auto signatures = *read_signatures(moment.message(2));
  signatures.resize(moment.world.session.parameters.threshold - 1);
  moment.expect_abort(2, write_signatures(moment.head(2), signatures), "too few neighbours confirm");
}

std::vector<Advertisement> keys_in(Moment& moment) { return *read_keys(moment.message(0)); }

// 4c, case 8.
TEST(HostileServer, Case8SubstitutedKeysAreRefused) {
  Moment moment(Trust::kActive, 1);
  std::vector<Advertisement> keys = keys_in(moment);
  keys[3].sealing = new_agreement_keys().open;
  moment.expect_abort(0, write_keys(moment.head(0), keys), "wrong signature");
  moment.expect_abort(3, write_keys(moment.head(3), keys), "own keys are missing or changed");
  // Signed, but by somebody else.
  Moment other(Trust::kActive, 1);
  keys = keys_in(other);
  keys[3].masking = new_agreement_keys().open;
  keys[3].signature =
      sign(other.world.identities[other.id(4)]->secret, keys[3].signed_part(other.world.session.context()));
  other.expect_abort(0, write_keys(other.head(0), keys), "wrong signature");
}

// With a semi-honest server nobody signs, but two clients with different lists have different sessions.
TEST(HostileServer, Case8SubstitutedKeysWithoutSignaturesGiveNothing) {
  Moment moment(Trust::kSemiHonest, 1);
  std::vector<Advertisement> keys = keys_in(moment);
  keys[3].sealing = new_agreement_keys().open;
  const auto misled = moment.client(0).receive(write_keys(moment.head(0), keys));
  ASSERT_TRUE(misled.ok());
  EXPECT_FALSE(moment.world.deliver(moment.id(0), misled.value()));
}

// 4c, case 9, and 1.6, mistake 12.
TEST(HostileServer, Case9Mistake12ImpossibleKeysAreRefused) {
  const auto with = [](const std::function<void(std::vector<Advertisement>&)>& change, const char* reason) {
    Moment moment(Trust::kSemiHonest, 1);
    std::vector<Advertisement> keys = keys_in(moment);
    change(keys);
    moment.expect_abort(0, write_keys(moment.head(0), keys), reason);
  };
  with([](auto& keys) { keys.erase(keys.begin()); }, "own keys are missing");
  with([](auto& keys) { keys[0].masking[5] ^= std::byte{1}; }, "own keys are missing or changed");
  with([](auto& keys) { keys[0].commitment[5] ^= std::byte{1}; }, "own keys are missing or changed");
  with([](auto& keys) { keys.insert(keys.begin(), keys[0]); }, "could not be read");
  with([](auto& keys) { keys[2].sealing = keys[0].sealing; }, "occurs twice");
  with([](auto& keys) { keys[2].masking = keys[4].sealing; }, "occurs twice");
  with([](auto& keys) { keys[2].sealing.fill(std::byte{0}); }, "an invalid public key");
  with([](auto& keys) { keys[5].client = 9999; }, "keys of a stranger");
  with([](auto& keys) { keys.resize(2); }, "too few clients");
  Moment moment(Trust::kSemiHonest, 1);
  Bytes shorter = moment.message(0);
  shorter.pop_back();
  moment.expect_abort(0, with_right_end(shorter), "could not be read");
}

TEST(HostileServer, Case9MaskingKeysOfSmallOrderAreRefusedByTheServer) {
  SumWorld world(kClients, complete_graph(kClients, Trust::kSemiHonest));
  const ClientId id = world.id(0);
  Advertisement keys = *read_advertisement(world.client(id).advertise());
  const MessageHead head = *read_head(world.client(id).advertise());
  Advertisement weak = keys;
  weak.masking.fill(std::byte{0});
  EXPECT_FALSE(world.deliver(id, write_advertisement(head, weak)));
  weak = keys;
  weak.masking = weak.sealing;
  EXPECT_FALSE(world.deliver(id, write_advertisement(head, weak)));
  EXPECT_TRUE(world.deliver(id, write_advertisement(head, keys)));
  const ClientId copy = world.id(1);
  keys.client = copy;
  EXPECT_FALSE(world.deliver(copy, write_advertisement({MessageType::kAdvertise, copy, head.tag}, keys)));
}

// 4c, case 10, and 1.6, mistake 10: a share that was changed, re-targeted or comes from another session is missing. The
// round goes on without it, and nobody says which one it was.
TEST(HostileServer, Case10Mistake10ChangedSharesAreMissing) {
  for (const char* how : {"flipped", "swapped", "other session"}) {
    Moment moment(Trust::kSemiHonest, 2);
    Moment old(Trust::kSemiHonest, 2);
    std::vector<SealedShare> shares = *read_shares(moment.message(0));
    if (how == std::string("flipped")) shares[1].sealed[20] ^= std::byte{4};
    if (how == std::string("swapped")) std::swap(shares[1].sealed, shares[2].sealed);
    if (how == std::string("other session")) shares[1].sealed = (*read_shares(old.message(0)))[1].sealed;
    const auto reply = moment.client(0).receive(write_shares(moment.head(0), shares));
    ASSERT_TRUE(reply.ok());
    EXPECT_TRUE(moment.world.deliver(moment.id(0), reply.value()));
    for (std::size_t i = 1; i < kClients; ++i) {
      moment.world.deliver(moment.id(i), moment.client(i).receive(moment.message(i)).value());
    }
    ASSERT_TRUE(moment.world.step(3, always));
    ASSERT_TRUE(moment.world.server->close().ok());
    EXPECT_TRUE(moment.world.server->sum() == moment.world.plain_sum(moment.world.session.cohort)) << how;
  }
  // With too few readable ones it gives up.
  Moment moment(Trust::kSemiHonest, 2);
  std::vector<SealedShare> shares = *read_shares(moment.message(0));
  for (SealedShare& share : shares) share.sealed[0] ^= std::byte{1};
  moment.expect_abort(0, write_shares(moment.head(0), shares), "fewer readable shares");
}

TEST(HostileServer, Mistake10SharesOfStrangersAreRefused) {
  Moment moment(Trust::kSemiHonest, 2);
  std::vector<SealedShare> shares = *read_shares(moment.message(0));
  shares.back().client = moment.id(0) + 1000;
  moment.expect_abort(0, write_shares(moment.head(0), shares), "shares of a stranger");
}

// 4c, case 11, and 1.6, mistake 11: a message of another session is refused and changes nothing.
TEST(HostileServer, Case11Mistake11ReplaysAreRefused) {
  const std::size_t phases = 4;
  for (std::size_t phase = 1; phase <= phases; ++phase) {
    Moment old(Trust::kActive, phase), now(Trust::kActive, phase);
    if (phase == 1) {
      // The same nonce and cohort: only the keys differ, and the client misses its own.
      now.expect_abort(0, old.message(0), "own keys are missing or changed");
      continue;
    }
    const State before = now.client(0).state();
    EXPECT_FALSE(now.client(0).receive(old.message(0)).ok());
    EXPECT_EQ(now.client(0).state(), before);
    const auto late = old.client(0).receive(old.message(0));
    EXPECT_FALSE(now.world.deliver(now.id(0), late.value()));
    EXPECT_TRUE(now.client(0).receive(now.message(0)).ok());
  }
}

TEST(HostileServer, Case11DuplicatesChangeNothing) {
  SumWorld world(kClients, complete_graph(kClients, Trust::kActive));
  for (const ClientId id : world.session.cohort) {
    EXPECT_TRUE(world.deliver(id, world.client(id).advertise()));
    const auto again = world.server->receive(id, world.client(id).advertise());
    EXPECT_EQ(again.value(), SumServer::Accepted::kAgain);
  }
  while (world.server->phase() != SumServer::Phase::kDone) {
    auto out = world.server->close();
    ASSERT_TRUE(out.ok());
    for (const auto& [id, message] : out.value()) {
      const Bytes reply = world.client(id).receive(*message).value();
      EXPECT_TRUE(world.deliver(id, reply));
      EXPECT_EQ(world.client(id).receive(*message).value(), reply);
      EXPECT_EQ(world.server->receive(id, reply).value(), SumServer::Accepted::kAgain);
    }
  }
  EXPECT_TRUE(world.server->sum() == world.plain_sum(world.session.cohort));
}

// 4c, case 12: every message in every state in which it does not belong.
TEST(HostileServer, Case12OutOfOrderMessagesChangeNothing) {
  for (std::size_t phase = 1; phase <= 4; ++phase) {
    auto now = std::make_unique<Moment>(Trust::kActive, phase);
    const State before = now->client(0).state();
    std::size_t tried = 0;
    for (std::uint8_t type = 1; type <= 9; ++type) {
      const MessageHead right = now->head(0);
      if (static_cast<MessageType>(type) == right.type) continue;
      ++tried;
      MessageHead wrong = right;
      wrong.type = static_cast<MessageType>(type);
      EXPECT_FALSE(now->client(0).receive(write_survivors(wrong, {now->id(0), now->id(1)})).ok());
      if (before == State::kSigned && wrong.type == MessageType::kSurvivors) {
        // A second list of survivors is a lie, not a mix-up: this client is lost.
        EXPECT_EQ(now->client(0).state(), State::kAborted);
        now = std::make_unique<Moment>(Trust::kActive, phase);
      }
      EXPECT_EQ(now->client(0).state(), before) << int{type};
    }
    EXPECT_EQ(tried, 8U);
    MessageHead others = now->head(0);
    others.client = now->id(1);
    EXPECT_FALSE(now->client(0).receive(write_survivors(others, now->world.session.cohort)).ok());
    EXPECT_FALSE(now->client(0).receive({}).ok());
    EXPECT_TRUE(now->client(0).receive(now->message(0)).ok());
  }
}

// 1.6, mistake 6: nothing is masked twice. A retry sends the same bytes, and no second list of shares is accepted.
TEST(HostileServer, Mistake6ARetrySendsTheSameMaskedInput) {
  Moment moment(Trust::kSemiHonest, 2);
  const Bytes first = moment.client(0).receive(moment.message(0)).value();
  EXPECT_EQ(moment.client(0).receive(moment.message(0)).value(), first);
  std::vector<SealedShare> fewer = *read_shares(moment.message(0));
  fewer.pop_back();
  EXPECT_FALSE(moment.client(0).receive(write_shares(moment.head(0), fewer)).ok());
  EXPECT_EQ(moment.client(0).state(), State::kMasked);
}

// 1.6, mistake 4: the masks of two sessions have nothing in common, even with the same nonce, cohort and input.
TEST(HostileServer, Mistake4NoMaskIsUsedTwice) {
  Moment first(Trust::kSemiHonest, 2), second(Trust::kSemiHonest, 2);
  const Bytes a = first.client(0).receive(first.message(0)).value();
  const Bytes b = second.client(0).receive(second.message(0)).value();
  const ByteView words_a = read_masked(a)->words, words_b = read_masked(b)->words;
  for (std::size_t i = 0; i + 4 <= words_a.size(); i += 4) {
    EXPECT_FALSE(std::equal(words_a.begin() + static_cast<std::ptrdiff_t>(i),
                            words_a.begin() + static_cast<std::ptrdiff_t>(i + 4),
                            words_b.begin() + static_cast<std::ptrdiff_t>(i)));
  }
}

// 4c, case 13.
TEST(HostileClient, Case13WrongInputsAreRefusedAndTheClientHasVanished) {
  Moment moment(Trust::kSemiHonest, 2);
  const Bytes honest = moment.client(0).receive(moment.message(0)).value();
  const MessageHead head = *read_head(honest);
  const ByteView words = read_masked(honest)->words;
  EXPECT_FALSE(moment.world.deliver(moment.id(0), write_masked(head, 32, words.first(words.size() - 4))));
  EXPECT_FALSE(moment.world.deliver(moment.id(0), write_masked(head, 64, words)));
  Bytes longer(words.begin(), words.end());
  longer.resize(longer.size() + 4);
  EXPECT_FALSE(moment.world.deliver(moment.id(0), write_masked(head, 32, longer)));
  EXPECT_FALSE(moment.world.deliver(moment.id(1), honest)) << "in the name of another";
  for (std::size_t i = 1; i < kClients; ++i) {
    moment.world.deliver(moment.id(i), moment.client(i).receive(moment.message(i)).value());
  }
  ASSERT_TRUE(moment.world.step(3, always));
  ASSERT_TRUE(moment.world.server->close().ok());
  EXPECT_EQ(moment.world.server->survivors().size(), kClients - 1);
  EXPECT_TRUE(moment.world.server->sum() == moment.world.plain_sum(moment.world.server->survivors()));
}

TEST(HostileClient, ASecondInputIsRefused) {
  Moment moment(Trust::kSemiHonest, 2);
  Bytes first = moment.client(0).receive(moment.message(0)).value();
  EXPECT_TRUE(moment.world.deliver(moment.id(0), first));
  first.back() ^= std::byte{1};
  EXPECT_FALSE(moment.world.deliver(moment.id(0), first));
}

// Wrong shares cannot spoil the sum unnoticed: what they reconstruct is compared with what was committed to.
TEST(HostileClient, WrongSharesAbortTheSum) {
  for (const bool vanished : {false, true}) {
    SumWorld world(kClients, complete_graph(kClients, Trust::kSemiHonest));
    const auto alive = [&](ClientId id, std::size_t phase) { return !vanished || id != world.id(5) || phase < 2; };
    world.advertise(alive);
    for (std::size_t phase = 1; phase < 3; ++phase) ASSERT_TRUE(world.step(phase, alive));
    ASSERT_TRUE(world.step(3, [](ClientId, std::size_t) { return false; }));
    for (const auto& [id, message] : world.sent[3]) {
      const Bytes reply = world.client(id).receive(message).value();
      auto revealed = *read_revealed(reply);
      if (id == world.id(0)) {
        for (RevealedShare& entry : revealed) {
          if (!vanished || entry.client == world.id(5)) entry.share.data()[1] ^= std::byte{1};
        }
      }
      EXPECT_TRUE(world.deliver(id, write_revealed(*read_head(reply), revealed)));
    }
    const auto end = world.server->close();
    ASSERT_FALSE(end.ok());
    EXPECT_THAT(end.failure().message, testing::HasSubstr("do not belong together"));
  }
}

TEST(HostileClient, SharesThatWereNotAskedForAreRefused) {
  Moment moment(Trust::kSemiHonest, 3);
  const Bytes honest = moment.client(0).receive(moment.message(0)).value();
  const MessageHead head = *read_head(honest);
  auto revealed = *read_revealed(honest);
  revealed[2].kind = RevealedShare::Kind::kMaskingKey;
  EXPECT_FALSE(moment.world.deliver(moment.id(0), write_revealed(head, revealed)));
  EXPECT_TRUE(moment.world.deliver(moment.id(0), honest));
}

}  // namespace
}  // namespace chorus::inline secure

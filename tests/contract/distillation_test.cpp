// The contracts of algorithm_test.cpp for methods that learn from predictions on a public set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "algorithm/distillation/fedid_client.h"
#include "tests/contract/distillation_rounds.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using testing::HasSubstr;

std::vector<std::string> distilling() {
  std::vector<std::string> names;
  for (const std::string& name : Algorithms::names()) {
    if (Algorithms::traits(name).distills) names.push_back(name);
  }
  return names;
}

/// All state that outlives a round.
at::Tensor everything(const DistillationRounds& run) {
  std::vector<at::Tensor> all{run.model};
  for (ClientId id = 0; id < run.world.clients.size(); ++id) all.push_back(run.own(id));
  return torch::cat(all);
}

class DistillationContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !quadratic::has_wire()) GTEST_SKIP() << "built without the wire format";
    DistillationRounds::linked = GetParam();
  }
  void TearDown() override { DistillationRounds::linked = false; }
};
INSTANTIATE_TEST_SUITE_P(Local, DistillationContract, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Linked, DistillationContract, testing::Values(true));

TEST_P(DistillationContract, SameBitsInAnyOrderOfClientsAndWithAnyNumberOfWorkers) {
  EXPECT_THAT(distilling(), testing::ElementsAre("calibrated", "cronus", "ds_fl", "feddf", "feded", "fedid", "fedkd",
                                                 "fedmd", "mhat"));
  for (const std::string& name : distilling()) {
    std::vector<linear::Client> clients;
    for (int k = 0; k < 7; ++k) clients.push_back({.examples = 4 + k % 4, .steps = 1 + k % 3});
    const std::string options = "{batch_size: 3, epochs: 2}";
    DistillationRounds run(name, clients, options), again(name, clients, options), shuffled(name, clients, options),
        parallel(name, clients, options);
    parallel.workers = 3;
    for (int round = 0; round < 2; ++round) {
      run.step();
      again.step();
      shuffled.step({3, 1, 6, 0, 5, 2, 4});
      parallel.step();
    }
    EXPECT_TRUE(torch::equal(everything(run), everything(again))) << name;
    EXPECT_TRUE(torch::equal(everything(run), everything(shuffled))) << name;
    EXPECT_TRUE(torch::equal(everything(run), everything(parallel))) << name;
    EXPECT_EQ(Algorithms::traits(name).personal, torch::equal(run.model, run.world.beginning())) << name;
    EXPECT_EQ(Algorithms::traits(name).own_models, !torch::equal(run.own(0), run.world.beginning())) << name;
  }
}

TEST_P(DistillationContract, ResumesFromASavedState) {
  for (const std::string& name : distilling()) {
    DistillationRounds whole(name, three_learners()), first(name, three_learners()), second(name, three_learners());
    for (int round = 0; round < 3; ++round) whole.step();
    first.step();
    second.algorithm->restore(first.algorithm->state());
    second.model = first.model.clone();
    second.round = first.round;
    second.world.states = first.world.states;
    for (int round = 0; round < 2; ++round) second.step();
    EXPECT_TRUE(torch::equal(everything(whole), everything(second))) << name;
  }
}

TEST_P(DistillationContract, ClientsThatFailOrSendInvalidValuesAreSkippedAndReported) {
  for (const std::string& name : distilling()) {
    std::vector<linear::Client> with = three_learners();
    with.push_back({.examples = 5, .steps = 1, .broken = true});
    DistillationRounds broken(name, with), without(name, three_learners());
    const RoundResult result = broken.step();
    without.step();
    ASSERT_EQ(result.failed.size(), 1U) << name;
    EXPECT_EQ(result.failed[0].first, 3U) << name;
    EXPECT_THAT(result.failed[0].second, HasSubstr("not a number")) << name;
    EXPECT_TRUE(torch::allclose(broken.model, without.model, 1e-6, 1e-6)) << name;
    EXPECT_TRUE(torch::allclose(broken.own(0), without.own(0), 1e-6, 1e-6)) << name;
    EXPECT_TRUE(std::isfinite(result.loss)) << name;

    if (name == "feddf") continue;  // it sends weights
    for (const bool shape : {true, false}) {
      with.back() = {.examples = 5, .steps = 1};
      DistillationRounds lying(name, with);
      lying.change = [shape](Reply& reply) {
        if (reply.client != 3 || !reply.body.has_tensor("predictions")) return;
        at::Tensor changed = reply.body.tensor("predictions").clone();
        changed[0] = std::nan("");
        reply.body.tensors["predictions"] = shape ? changed.slice(0, 0, changed.size(0) - 1) : changed;
      };
      const RoundResult lied = lying.step();
      ASSERT_EQ(lied.failed.size(), 1U) << name;
      EXPECT_THAT(lied.failed[0].second, HasSubstr(shape ? "should be" : "not finite")) << name;
      EXPECT_TRUE(torch::allclose(lying.model, without.model, 1e-6, 1e-6)) << name;
      EXPECT_TRUE(torch::equal(lying.own(3), lying.world.beginning())) << name;
    }

    DistillationRounds nobody(name, {{.broken = true}, {.examples = 0}});
    EXPECT_EQ(nobody.step().failed.size(), 2U) << name;
    EXPECT_TRUE(torch::equal(nobody.model, nobody.world.beginning())) << name;
  }
}

TEST_P(DistillationContract, ARoundInWhichNobodyLearnsWhatTheServerTeachesFails) {
  for (const std::string name : {"calibrated", "cronus", "ds_fl", "mhat"}) {
    DistillationRounds run(name, three_learners());
    run.change_request = [](Request& request) {
      if (request.procedure != "distill/learn") return;
      request.body.tensors["answers"] = request.body.tensor("answers").to(at::kBFloat16);
    };
    EXPECT_THAT([&] { run.step(); }, testing::ThrowsMessage<TooFewReplies>(testing::AllOf(
                                         HasSubstr("round 1: no client learned what the server taught; client 0: "),
                                         HasSubstr("not float32"))))
        << name;
  }
}

TEST_P(DistillationContract, PublicTextsTeachLanguageModelsAsMuchAsConfigured) {
  const auto after = [](const std::string& name, const std::string& share, bool teach, bool changed) {
    DistillationRounds run(name, three_learners(),
                           "{batch_size: 3, epochs: 2" + (share.empty() ? "" : ", text_loss: " + share) + "}");
    run.world.texts_teach = teach;
    if (changed) {
      run.change = [](Reply& reply) {
        if (!reply.body.has_tensor("predictions")) return;
        reply.body.tensors["predictions"] = reply.body.tensor("predictions").roll(1);
      };
    }
    run.step();
    run.change = {};
    run.step();
    return everything(run);
  };
  for (const std::string& name : distilling()) {
    const at::Tensor half = after(name, "", true, false);
    EXPECT_TRUE(torch::equal(half, after(name, "0.5", true, false))) << name << ": the default";
    for (const char* share : {"0", "1"}) EXPECT_FALSE(torch::equal(half, after(name, share, true, false))) << name;
    // Without labels, or without any weight for them, nothing changes.
    EXPECT_TRUE(torch::equal(after(name, "0", true, false), after(name, "", false, false))) << name;
    EXPECT_THROW(after(name, "0.5", false, false), ConfigError) << name;
    if (name == "feddf") continue;  // it sends weights
    EXPECT_FALSE(torch::equal(half, after(name, "", true, true))) << name;
    EXPECT_TRUE(torch::equal(after(name, "1", true, false), after(name, "1", true, true)))
        << name << ": nobody learns from predictions";
  }
}

// Local noise protects predictions only, and a model that has learned has seen private data.
TEST_P(DistillationContract, RepliesWithoutPredictionsHaveOnlyCountsAndSeconds) {
  for (const std::string& name : distilling()) {
    DistillationRounds run(name, three_learners(), "{epochs: 2, batch_size: 3}");
    int seen = 0;
    run.change = [&](const Reply& reply) {
      if (!reply.body.tensors.empty()) return;
      ++seen;
      EXPECT_TRUE(reply.body.texts.empty()) << name;
      for (const auto& [number, value] : reply.body.numbers) {
        EXPECT_THAT(number, testing::AnyOf("steps", "seconds", "load", "load_texts")) << name;
      }
    };
    for (int round = 0; round < 2; ++round) run.step();
    const AlgorithmTraits traits = Algorithms::traits(name);
    EXPECT_EQ(seen, traits.own_models && traits.predictions_down ? 6 : 0) << name;
  }
}

// Predictions cost time, but say nothing about how much a client has learned from.
TEST_P(DistillationContract, BatchesThatWeighAreThoseOfTheClientsOwnData) {
  for (const std::string& name : distilling()) {
    if (name == "feddf") continue;  // its clients train as FedAvg's
    DistillationRounds run(name, three_learners(), "{epochs: 2, batch_size: 3}");
    for (int round = 0; round < 3; ++round) {
      std::set<ClientId> seen;
      run.change = [&](const Reply& reply) {
        if (!reply.body.has_tensor("predictions") || !seen.insert(reply.client).second) return;
        const double local = three_learners()[reply.client].steps;
        EXPECT_EQ(weight_of(reply, Weighting::kBatches), local) << name << ", round " << round;
        const bool trained = name != "fedmd" || round == 0;  // FedMD's clients have trained before
        EXPECT_EQ(reply.body.number("load"), trained ? local : 0) << name;
        // All public texts, or the first batch in FedID's first answer.
        EXPECT_DOUBLE_EQ(reply.body.number("load_texts"), (name == "fedid" ? 3.0 : 8.0) / 3) << name;
      };
      run.step();
      EXPECT_EQ(seen.size(), 3U) << name;
    }
  }
}

TEST(Distillation, AClientRefusesAnImpossibleShareOfTheTexts) {
  Message body;
  EXPECT_EQ(text_loss_in(body), 0) << "a server that does not ask for it";
  for (const double share : {0.0, 0.25, 1.0}) {
    body.numbers["text_loss"] = share;
    EXPECT_EQ(text_loss_in(body), share);
  }
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    body.numbers["text_loss"] = share;
    EXPECT_THROW(text_loss_in(body), DataError) << share;
  }
}

TEST(Distillation, TrafficIsThatOfTable5) {
  // |D0| = 8 rows of 3 elements, K = 3 clients, one round; a broadcast counts once.
  const double public_numbers = 8 * 3, clients = 3, theta = 9;
  const auto traffic = [](const std::string& name, const std::string& options) {
    DistillationRounds run(name, three_learners(), options);
    run.step();
    return std::tuple{run.floats_up, run.floats_down, run.asks};
  };
  using testing::Eq;
  EXPECT_THAT(traffic("fedkd", "{}"), Eq(std::tuple{public_numbers * clients, 0.0, 1}));
  EXPECT_THAT(traffic("ds_fl", "{}"), Eq(std::tuple{public_numbers * clients, public_numbers, 2}));
  EXPECT_THAT(traffic("mhat", "{}"), Eq(std::tuple{public_numbers * clients, public_numbers, 2}));
  EXPECT_THAT(traffic("feded", "{}"), Eq(std::tuple{public_numbers * clients, theta, 1}));
  // Three batches and a last ask; another epoch sends everything again.
  EXPECT_THAT(traffic("fedid", "{epochs: 1, batch_size: 3}"),
              Eq(std::tuple{public_numbers * clients, public_numbers, 4}));
  EXPECT_THAT(traffic("fedid", "{epochs: 2, batch_size: 3}"),
              Eq(std::tuple{2 * public_numbers * clients, 2 * public_numbers, 7}));
}

// To the byte: without filters, all bytes but those of names and numbers are predictions and weights.
TEST_P(DistillationContract, BytesAreTable5PlusFraming) {
  for (const std::string& name : distilling()) {
    std::map<std::int64_t, std::pair<double, double>> framing;  // by public rows: total, messages
    for (const std::int64_t rows : {8, 200}) {
      DistillationRounds run(name, three_learners(), "{epochs: 1, batch_size: 8}");
      run.world.public_rows = rows;
      const RoundResult result = run.step();
      const double sent = result.numbers.at("payload_bytes"), clients = 3,
                   predictions = 4.0 * 3 * static_cast<double>(rows);
      const double theta = 4 * 9, once = result.numbers.at("table5_bytes");
      const double expected = name == "feddf"   ? theta * (clients + 1) + predictions * clients
                              : name == "feded" ? theta + predictions * clients
                              : name == "fedkd" ? predictions * clients
                                                : predictions * (clients + 1);
      EXPECT_EQ(once, expected) << name;
      EXPECT_EQ(sent, name == "feddf" ? 4 * 9 * 2 * clients : once + (once - predictions * clients) * (clients - 1))
          << name;
      const double total = static_cast<double>(run.traffic.up + run.traffic.down), messages = 2 * clients * run.asks;
      framing[rows] = {total - sent, messages};
      EXPECT_GT(total - sent, 0) << name;
      EXPECT_LT(total - sent, messages * (GetParam() ? 400 : 250)) << name << ": framing of a message";
    }
    // Each message has the same framing, whatever it carries; frames of a transport also count their bytes.
    const double one = framing[8].first / framing[8].second, other = framing[200].first / framing[200].second;
    if (name == "fedid") continue;  // its first and last messages differ from those between
    EXPECT_NEAR(one, other, GetParam() ? 8 : 0) << name;
  }
}

// The table's formula is of one epoch and all clients; the payload is what really travelled.
TEST_P(DistillationContract, PayloadCountsEveryEpochAndOnlyWhatTravelled) {
  const double theta = 4 * 9, predictions = 4 * 8 * 3, cohort = 4;
  for (const std::string& name : distilling()) {
    std::vector<linear::Client> clients = three_learners();
    clients.push_back({.examples = 5, .steps = 1, .broken = true});
    DistillationRounds run(name, clients, "{epochs: 2, batch_size: 3}");
    const RoundResult result = run.step();
    EXPECT_EQ(result.failed.size(), 1U) << name;
    EXPECT_EQ(result.numbers.at("payload_bytes"), 4 * (run.floats_up + run.floats_received)) << name;
    EXPECT_GT(static_cast<double>(run.traffic.up + run.traffic.down), result.numbers.at("payload_bytes")) << name;
    EXPECT_EQ(result.numbers.at("table5_bytes"), name == "feddf"   ? theta * (cohort + 1) + predictions * cohort
                                                 : name == "feded" ? theta + predictions * cohort
                                                 : name == "fedkd" ? predictions * cohort
                                                                   : predictions * (cohort + 1))
        << name;
  }
}

}  // namespace
}  // namespace chorus::inline contract

#include "application/data/partition/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include "application/data/partition/class_dirichlet.h"
#include "application/data/partition/label_dirichlet.h"
#include "application/data/partition/natural.h"
#include "application/data/partition/quantity_dirichlet.h"
#include "application/data/partition/shards.h"
#include "application/data/partition/statistics.h"
#include "application/data/partition/temporal.h"
#include "application/data/partition/test_population.h"
#include "application/data/partition/uniform.h"
#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double mean_divergence(const Partition& partition, const TestPopulation& population) {
  return js_matrix(partition.train, population.view.labels, 200).mean_divergence;
}

TEST(LabelDirichlet, FollowsTheInvariantsOfFedNlp) {
  const TestPopulation population(1037, 215, 20);
  for (const double alpha : {0.01, 1.0, 100.0}) {
    const Partition partition = LabelDirichlet({.alpha = alpha}).make(population.view, {.clients = 10, .seed = 42});
    for (std::size_t c = 0; c < 9; ++c) {
      EXPECT_EQ(partition.train.size_of(c), 103u);
      EXPECT_EQ(partition.test.size_of(c), 21u);
    }
    EXPECT_EQ(partition.train.size_of(9), 103u + 7u);
    EXPECT_EQ(partition.test.size_of(9), 21u + 5u);
    EXPECT_TRUE(check_against_data(partition, 1252, "test").exact());
    for (std::size_t c = 0; c < 10; ++c) {
      for (const ExampleId id : partition.train[c]) EXPECT_LT(id, 1037u);
      for (const ExampleId id : partition.test[c]) EXPECT_GE(id, 1037u);
    }
  }
}

TEST(LabelDirichlet, DivergenceRisesStrictlyAsAlphaFalls) {
  const TestPopulation population(11314, 0, 20);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    double previous = 0;
    for (const double alpha : {100.0, 10.0, 5.0, 1.0, 0.1}) {
      const Partition partition =
          LabelDirichlet({.alpha = alpha}).make(population.view, {.clients = 100, .seed = seed});
      const double now = mean_divergence(partition, population);
      EXPECT_GT(now, previous) << "alpha " << alpha << " seed " << seed;
      previous = now;
    }
    EXPECT_GT(previous, 0.8);
  }
}

TEST(LabelDirichlet, SaysWhatToDoWithTooManyClients) {
  const TestPopulation population(50, 20, 4);
  EXPECT_THAT([&] { LabelDirichlet({}).make(population.view, {.clients = 60}); },
              ThrowsMessage<ConfigError>(HasSubstr("remainder=spread")));
  EXPECT_THAT([&] { LabelDirichlet({}).make(population.view, {.clients = 30}); },
              ThrowsMessage<ConfigError>(HasSubstr("20 examples of the test split")));
  const Partition spread = LabelDirichlet({.remainder = "spread"}).make(population.view, {.clients = 60});
  EXPECT_TRUE(check_against_data(spread, 70, "test").exact());
  EXPECT_EQ(spread.train.size_of(0), 1u);
  EXPECT_EQ(spread.train.size_of(59), 0u);
}

TEST(LabelDirichlet, NamesItsGroupAsFedNlpDoes) {
  const TestPopulation population(50, 20, 4);
  const auto group = [&](double alpha) {
    return LabelDirichlet({.alpha = alpha}).make(population.view, {.clients = 10}).info.group;
  };
  EXPECT_EQ(group(1), "niid_label_clients=10_alpha=1");
  EXPECT_EQ(group(0.5), "niid_label_clients=10_alpha=0.5");
  EXPECT_EQ(QuantityDirichlet({.beta = 5, .min_size = 0}).make(population.view, {.clients = 10}).info.group,
            "niid_quantity_clients=10_beta=5.0");
}

TEST(Partitioner, RefusesWrongParameters) {
  EXPECT_THAT([] { LabelDirichlet({.alpha = 0}); }, ThrowsMessage<ConfigError>(HasSubstr("alpha is 0")));
  EXPECT_THAT([] { LabelDirichlet({.alpha = -1}); }, ThrowsMessage<ConfigError>(HasSubstr("positive")));
  EXPECT_THROW(LabelDirichlet({.alpha = std::nan("")}), ConfigError);
  EXPECT_THROW(ClassDirichlet({.alpha = -2}), ConfigError);
  EXPECT_THROW(QuantityDirichlet({.beta = 0}), ConfigError);
  EXPECT_THROW(LabelQuantity({.alpha = 1, .beta = INFINITY}), ConfigError);
  EXPECT_THROW(Shards({.shards = 0}), ConfigError);
  EXPECT_THROW(Temporal({.slices = "month"}), ConfigError);
  const TestPopulation population(50, 20, 4);
  EXPECT_THAT([&] { Uniform({}).make(population.view, {.clients = 0}); },
              ThrowsMessage<ConfigError>(HasSubstr("at least one")));
  EXPECT_THROW(Uniform({}).make(population.view, {.clients = static_cast<std::size_t>(-3)}), ConfigError);
  EXPECT_THAT([&] { LabelDirichlet({.by = "colour"}).make(population.view, {.clients = 2}); },
              ThrowsMessage<ConfigError>(HasSubstr("colour")));
  EXPECT_THAT([&] { LabelDirichlet({.by = "client"}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("it has label and source")));
}

TEST(Partitioner, RefusesColumnsThatAreWrong) {
  TestPopulation population(50, 20, 4);
  population.labels[13] = 4;
  EXPECT_THAT([&] { LabelDirichlet({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("example 13 has label 4")));
  population.labels[13] = Factor::kNoValue;
  EXPECT_THAT([&] { LabelDirichlet({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("example 13 has no label")));
  population.train[3] = 70;
  EXPECT_THAT([&] { Uniform({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("train split names example 70 of 70")));
}

TEST(Uniform, BalancesOrCutsAsFedNlp) {
  const TestPopulation population(100, 0, 4);
  const Partition balanced = Uniform({}).make(population.view, {.clients = 30});
  for (std::size_t c = 0; c < 30; ++c) {
    EXPECT_GE(balanced.train.size_of(c), 3u);
    EXPECT_LE(balanced.train.size_of(c), 4u);
  }
  const Partition chunks = Uniform({.fednlp_chunks = true}).make(population.view, {.clients = 30});
  EXPECT_EQ(chunks.train.size_of(24), 4u);
  EXPECT_EQ(chunks.train.size_of(25), 0u);
  EXPECT_TRUE(check_against_data(chunks, 100, "test").exact());
}

TEST(QuantityDirichlet, SpreadsMoreForSmallerBeta) {
  // Fig. 8: the density over client sizes narrows as beta grows. The variance of a share is (1/n)(1-1/n)/(n beta+1).
  const TestPopulation population(11314, 7532, 20);
  double previous = 1e9;
  for (const double beta : {1.0, 5.0, 10.0, 100.0}) {
    const Partition partition =
        QuantityDirichlet({.beta = beta, .min_size = 0}).make(population.view, {.clients = 100, .seed = 42});
    double square = 0;
    for (std::size_t c = 0; c < 100; ++c) {
      const double difference = static_cast<double>(partition.train.size_of(c)) - 113.14;
      square += difference * difference / 100;
    }
    const double expected = 11314 * std::sqrt(0.01 * 0.99 / (100 * beta + 1));
    EXPECT_NEAR(std::sqrt(square), expected, 0.35 * expected) << "beta " << beta;
    EXPECT_LT(std::sqrt(square), previous);
    previous = std::sqrt(square);
    // Only the quantity is skewed, not the labels.
    EXPECT_TRUE(check_against_data(partition, 18846, "test").exact());
  }
}

TEST(QuantityDirichlet, GuardsAgainstEmptyClients) {
  const TestPopulation population(11314, 7532, 20);
  const Partition partition = QuantityDirichlet({.beta = 1}).make(population.view, {.clients = 100, .seed = 42});
  for (std::size_t c = 0; c < 100; ++c) {
    EXPECT_GE(partition.train.size_of(c), 1u);
    EXPECT_GE(partition.test.size_of(c), 1u);
  }
  EXPECT_THAT([&] { QuantityDirichlet({.beta = 0.01}).make(population.view, {.clients = 100}); },
              ThrowsMessage<ConfigError>(HasSubstr("in each of 100 draws")));
  EXPECT_THAT([&] { QuantityDirichlet({}).make(population.view, {.clients = 20000}); },
              ThrowsMessage<ConfigError>(HasSubstr("min_size=0")));
}

TEST(LabelQuantity, SkewsBoth) {
  const TestPopulation population(11314, 0, 20);
  const Partition partition =
      LabelQuantity({.alpha = 0.1, .beta = 1, .min_size = 1}).make(population.view, {.clients = 100, .seed = 1});
  const Partition flat =
      LabelQuantity({.alpha = 1000, .beta = 1000}).make(population.view, {.clients = 100, .seed = 1});
  EXPECT_GT(mean_divergence(partition, population), 0.7);
  EXPECT_LT(mean_divergence(flat, population), 0.1);
  const auto [low, high] = std::minmax_element(partition.train.offsets().begin(), partition.train.offsets().end());
  EXPECT_EQ(*high - *low, 11314u);
  const SizeSummary sizes = summarise_sizes(partition.train);
  EXPECT_GT(sizes.maximum, 300);
  EXPECT_LT(sizes.minimum, 20);
}

TEST(ClassDirichlet, LeavesNoClassOutAndGivesUnequalSizes) {
  const TestPopulation population(1245, 277, 2);
  const Partition partition = ClassDirichlet({.alpha = 1}).make(population.view, {.clients = 10, .seed = 42});
  EXPECT_TRUE(check_against_data(partition, 1522, "test").exact());
  const SizeSummary sizes = summarise_sizes(partition.train);
  EXPECT_GT(sizes.maximum, 2 * sizes.minimum);
  // alpha 100 plays IID: each client near a tenth of each class.
  const Partition iid = ClassDirichlet({.alpha = 10000}).make(population.view, {.clients = 10, .seed = 42});
  for (std::size_t c = 0; c < 10; ++c) EXPECT_NEAR(static_cast<double>(iid.train.size_of(c)), 124.5, 12);
}

TEST(Shards, FewLabelsAClient) {
  // 10 labels with 100 examples each and 100 shards of 10: no shard spans two labels.
  TestPopulation population(1000, 0, 10);
  for (std::size_t i = 0; i < 1000; ++i) population.labels[i] = static_cast<std::int32_t>(i % 10);
  const Partition partition = Shards({.shards = 2}).make(population.view, {.clients = 50, .seed = 3});
  std::size_t two = 0;
  for (std::size_t c = 0; c < 50; ++c) {
    const auto counts = label_counts(partition.train, c, population);
    const auto labels = std::count_if(counts.begin(), counts.end(), [](std::size_t n) { return n > 0; });
    EXPECT_LE(labels, 2);
    EXPECT_EQ(partition.train.size_of(c), 20u);
    two += labels == 2 ? 1 : 0;
  }
  EXPECT_GT(two, 30u);
}

TEST(Natural, OneClientAValueInByteOrder) {
  TestPopulation population(6, 3, 2);
  population.source_names = {"SQuAD", "HotpotQA", "SearchQA", "NewsQA", "NaturalQuestionsShort", "TriviaQA"};
  population.sources = {0, 1, 2, 3, 4, 5, 5, 0, 0};
  population.view.sources = {population.sources, population.source_names};
  const Partition partition = Natural({.by = "source"}).make(population.view, {});
  EXPECT_EQ(partition.client_names,
            (std::vector<std::string>{"HotpotQA", "NaturalQuestionsShort", "NewsQA", "SQuAD", "SearchQA", "TriviaQA"}));
  EXPECT_EQ(partition.train[3][0], 0u);
  EXPECT_EQ(partition.test.size_of(3), 2u);
  EXPECT_EQ(partition.info.group, "natural_clients=6");
  EXPECT_THAT([&] { Natural({.by = "source"}).make(population.view, {.clients = 5}); },
              ThrowsMessage<ConfigError>(HasSubstr("6 different values of source")));
}

TEST(Temporal, SlicesByCountOrDuration) {
  TestPopulation population(8, 2, 2);
  population.times = {0, 1, 2, 3, 4, 5, 6, 100, 2, 99};
  population.view.times = population.times;
  const Partition count = Temporal({.slices = "count"}).make(population.view, {.clients = 2});
  EXPECT_THAT(count.train[0], testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(count.test[0], testing::ElementsAre(8));
  const Partition duration = Temporal({.slices = "duration"}).make(population.view, {.clients = 2});
  EXPECT_THAT(duration.train[1], testing::ElementsAre(7));
  EXPECT_THAT(duration.test[1], testing::ElementsAre(9));
  population.times[4] = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT([&] { Temporal({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("example 4 has no time")));
  population.view.times = {};
  EXPECT_THROW(Temporal({}).make(population.view, {.clients = 2}), DataError);
}

TEST(Temporal, KeepsClientsInContinualSlices) {
  const TestPopulation population(3000, 100, 2, 40);
  const Partition clients = Natural({}).make(population.view, {});
  const auto boundaries = slice_boundaries(population.times, 3, "duration");
  const std::vector<Partition> slices = slice_clients(clients, population.times, boundaries);
  ASSERT_EQ(slices.size(), 3u);
  for (std::size_t c = 0; c < 40; ++c) {
    std::vector<ExampleId> together;
    for (std::size_t s = 0; s < 3; ++s) {
      ASSERT_EQ(slices[s].clients(), 40u);
      for (const ExampleId id : slices[s].train[c]) {
        EXPECT_EQ(slice_of(population.times[id], boundaries), s);
        together.push_back(id);
      }
    }
    std::sort(together.begin(), together.end());
    EXPECT_TRUE(std::equal(together.begin(), together.end(), clients.train[c].begin(), clients.train[c].end()));
  }
}

TEST(TestMix, SameFollowsTheTrainingMix) {
  const TestPopulation population(10000, 4000, 10);
  std::vector<double> train_of(10), test_of(10);
  for (std::size_t i = 0; i < 14000; ++i)
    (i < 10000 ? train_of : test_of)[static_cast<std::size_t>(population.labels[i])] += 1;
  for (const TestMix mix : {TestMix::kIndependent, TestMix::kSame}) {
    const Partition partition =
        LabelQuantity({.alpha = 0.3, .beta = 2}).make(population.view, {.clients = 20, .seed = 5, .test_mix = mix});
    EXPECT_TRUE(check_against_data(partition, 14000, "test").exact());
    double distance = 0;
    for (std::size_t c = 0; c < 20; ++c) {
      const auto train = label_counts(partition.train, c, population);
      const auto test = label_counts(partition.test, c, population);
      for (std::size_t l = 0; l < 10; ++l) {
        const double expected = static_cast<double>(train[l]) * test_of[l] / train_of[l];
        distance += std::abs(expected - static_cast<double>(test[l]));
      }
    }
    // Rounding costs less than one example for each client and label.
    if (mix == TestMix::kSame) {
      EXPECT_LT(distance, 20 * 10);
    } else {
      EXPECT_GT(distance, 1000);
    }
  }
}

TEST(HoldOut, CutsEveryClientOnce) {
  const TestPopulation population(1000, 0, 4, 20);
  const Partition whole = Natural({}).make(population.view, {});
  for (const bool latest : {false, true}) {
    Partition partition = whole;
    hold_out(partition, 0.2, latest ? std::span<const std::int64_t>(population.times) : std::span<const std::int64_t>{},
             42);
    EXPECT_TRUE(check_against_data(partition, 1000, "test").exact());
    for (std::size_t c = 0; c < 20; ++c) {
      EXPECT_EQ(partition.test.size_of(c), whole.train.size_of(c) / 5);
      if (!latest) continue;
      std::int64_t newest = 0;
      for (const ExampleId id : partition.train[c]) newest = std::max(newest, population.times[id]);
      for (const ExampleId id : partition.test[c]) EXPECT_GE(population.times[id], newest);
    }
  }
  Partition partition = whole;
  for (const double share : {-0.1, 1.0, 1.5}) EXPECT_THROW(hold_out(partition, share, {}, 1), ConfigError) << share;
  hold_out(partition, 0.999, {}, 1);
  for (std::size_t c = 0; c < 20; ++c) EXPECT_GE(partition.train.size_of(c), 1u);
}

TEST(Partition, ClientsWithoutTrainingExamplesAreCounted) {
  Partition partition;
  const std::vector<ExampleId> some{0, 1, 2};
  partition.train.append(some);
  partition.test.append({});
  EXPECT_EQ(empty_clients_warning(partition), "");
  for (int i = 0; i < 49; ++i) {
    partition.train.append({});
    partition.test.append({});
  }
  EXPECT_THAT(empty_clients_warning(partition),
              testing::AllOf(HasSubstr("49 of 50 clients have no training examples"), HasSubstr("fewer clients")));
}

TEST(Partition, OfOtherDataIsRefused) {
  const TestPopulation population(100, 20, 4);
  const Partition partition = Uniform({}).make(population.view, {.clients = 10});
  EXPECT_TRUE(check_against_data(partition, 120, "p.h5").exact());
  EXPECT_EQ(check_against_data(partition, 130, "p.h5").missing, 10u);
  EXPECT_THAT([&] { check_against_data(partition, 100, "p.h5, group uniform"); },
              ThrowsMessage<DataError>(testing::AllOf(HasSubstr("p.h5, group uniform"), HasSubstr("only 100"))));
}

}  // namespace
}  // namespace chorus::inline partition

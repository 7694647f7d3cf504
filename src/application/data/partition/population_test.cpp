#include "application/data/partition/population.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/data/partition/partition.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline partition {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct SmallWorld {
  std::vector<std::uint32_t> train{0, 1, 2}, test{3};
  std::vector<std::int32_t> labels{0, 1, 0, 1}, clients{2, 0, 1, 2};
  std::vector<std::string> label_names{"no", "yes"}, client_names{"ann", "bob", "cat"};

  Population population() const {
    Population result;
    result.examples = 4;
    result.train = train;
    result.test = test;
    result.labels = {labels, label_names};
    result.clients = {clients, client_names};
    return result;
  }
};

TEST(Population, EveryColumnIsChecked) {
  const SmallWorld world;
  check_population(world.population());
  const auto refused = [&](const auto& edit) {
    Population bad = world.population();
    edit(bad);
    return message_of<DataError>([&] { check_population(bad); });
  };
  const std::vector<std::int32_t> short_column{0, 1}, beyond{0, 1, 2, 0}, negative{0, -2, 0, 1}, missing{0, -1, 0, 1};
  const std::vector<std::uint32_t> outside{0, 4};
  const std::vector<std::int64_t> times{1, 2};
  EXPECT_THAT(refused([&](Population& p) { p.labels.ids = short_column; }), HasSubstr("2 entries for 4 examples"));
  EXPECT_THAT(refused([&](Population& p) { p.labels.ids = beyond; }), HasSubstr("example 2 has label 2"));
  EXPECT_THAT(refused([&](Population& p) { p.labels.ids = negative; }), HasSubstr("example 1 has label -2"));
  EXPECT_EQ(refused([&](Population& p) { p.labels.ids = missing; }), kNothingThrown) << "an example may have none";
  EXPECT_THAT(refused([&](Population& p) {
                p.clients.ids = beyond;
                p.clients.names = world.label_names;
              }),
              HasSubstr("client"));
  EXPECT_THAT(refused([&](Population& p) { p.train = outside; }), HasSubstr("the train split names example 4 of 4"));
  EXPECT_THAT(refused([&](Population& p) { p.test = outside; }), HasSubstr("the test split"));
  EXPECT_THAT(refused([&](Population& p) { p.times = times; }), HasSubstr("the time column"));
  EXPECT_THAT(refused([&](Population& p) { p.examples = std::size_t{1} << 32; }), HasSubstr("32 bits"));
}

TEST(Population, FactorsByName) {
  const SmallWorld world;
  const Population population = world.population();
  EXPECT_EQ(factor_named(population, "label").ids.data(), world.labels.data());
  EXPECT_EQ(factor_named(population, "client").ids.data(), world.clients.data());
  EXPECT_THAT(message_of<DataError>([&] { (void)factor_named(population, "source"); }),
              AllOf(HasSubstr("no source column"), HasSubstr("it has label and client")));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)factor_named(population, "colour"); }),
              AllOf(HasSubstr("'colour'"), HasSubstr("label, client or source")));
  SmallWorld gap;
  gap.labels[3] = Factor::kNoValue;
  const Population with_gap = gap.population();
  EXPECT_THAT(message_of<DataError>([&] { (void)factor_named(with_gap, "label"); }),
              HasSubstr("example 3 has no label"));
  Population nothing;
  EXPECT_TRUE(factor_named(nothing, "label").empty()) << "nothing is lacking where there is nothing";
}

TEST(ClientLists, FromOwnersKeepTheOrderOfExamples) {
  const std::vector<ClientId> owners{2, 0, 2, 0, 2};
  const std::vector<ExampleId> ids{50, 40, 30, 20, 10};
  const ClientLists lists = ClientLists::from_owners(owners, ids, 4);
  EXPECT_EQ(lists.clients(), 4U);
  EXPECT_EQ(lists.total(), 5U);
  EXPECT_THAT(lists[0], ElementsAre(40, 20));
  EXPECT_THAT(lists[1], IsEmpty());
  EXPECT_THAT(lists[2], ElementsAre(50, 30, 10));
  EXPECT_THAT(lists[3], IsEmpty());
  EXPECT_EQ(lists.size_of(2), 3U);
  ClientLists appended;
  EXPECT_EQ(appended.clients(), 0U);
  for (std::size_t client = 0; client < 4; ++client) appended.append(lists[client]);
  EXPECT_EQ(appended, lists);
  EXPECT_THROW((void)ClientLists::from_owners(owners, ids, 2), InternalError);
  EXPECT_THROW((void)ClientLists::from_owners(owners, std::vector<ExampleId>{1}, 4), InternalError);
}

Partition two_clients() {
  Partition partition;
  partition.train.append(std::vector<ExampleId>{0, 1, 2, 3, 4});
  partition.train.append(std::vector<ExampleId>{5, 6});
  partition.test.append({});
  partition.test.append({});
  return partition;
}

TEST(Partition, CoverageCountsWhatIsMissingAndRepeated) {
  Partition partition = two_clients();
  Coverage coverage = check_against_data(partition, 7, "p");
  EXPECT_TRUE(coverage.exact());
  coverage = check_against_data(partition, 10, "p");
  EXPECT_EQ(coverage.held, 7U);
  EXPECT_EQ(coverage.missing, 3U);
  EXPECT_FALSE(coverage.exact());
  partition.test = ClientLists();
  partition.test.append(std::vector<ExampleId>{6, 6});
  coverage = check_against_data(partition, 7, "p");
  EXPECT_EQ(coverage.repeated, 2U);
  EXPECT_THAT(message_of<DataError>([&] { (void)check_against_data(partition, 5, "p.h5: g"); }),
              AllOf(HasSubstr("p.h5: g"), HasSubstr("client 1 holds example 5"), HasSubstr("0 to 4")));
}

TEST(Partition, TheLatestAreHeldOutWhereThereAreTimes) {
  Partition partition = two_clients();
  const std::vector<std::int64_t> times{9, 1, 8, 2, 7, 5, 5};
  hold_out(partition, 0.5, times, 1);
  EXPECT_THAT(partition.test[0], ElementsAre(0, 2)) << "floor(0.5 * 5) of them, the latest";
  EXPECT_THAT(partition.train[0], ElementsAre(1, 3, 4));
  EXPECT_THAT(partition.test[1], ElementsAre(6)) << "of equal times the later example";
  EXPECT_THAT(message_of<ConfigError>([&] { hold_out(partition, 0.5, times, 1); }),
              HasSubstr("already has a test split"));
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    Partition fresh = two_clients();
    EXPECT_THROW(hold_out(fresh, share, {}, 1), ConfigError);
  }
}

}  // namespace
}  // namespace chorus::inline partition

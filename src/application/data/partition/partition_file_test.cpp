#include "application/data/partition/partition_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "application/data/partition/natural.h"
#include "application/data/partition/test_population.h"
#include "application/data/partition/uniform.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline partition {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class PartitionFile : public testing::Test {
 protected:
  PartitionFile() {
    folder_ = std::filesystem::temp_directory_path() / ("chorus_partition_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~PartitionFile() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

TEST(GroupNames, BothSpellingsMeanTheSame) {
  EXPECT_EQ(canonical_group("niid_label_clients=100_alpha=1.0"), "niid_label_clients=100_alpha=1");
  EXPECT_EQ(canonical_group("niid_label_clients=100_alpha=0.50"), "niid_label_clients=100_alpha=0.5");
  EXPECT_EQ(canonical_group("kmeans_10"), "kmeans_clusters=10");
  EXPECT_EQ(canonical_group("nature"), "natural");
  EXPECT_EQ(canonical_group(""), "");
  EXPECT_EQ(canonical_group("__=_=1"), "__=_=1");
  const std::vector<std::string> groups{"kmeans_10", "niid_label_clients=10_alpha=1.0", "niid_label_clients=10_alpha=5",
                                        "uniform"};
  EXPECT_EQ(find_group(groups, "niid_label_clients=10_alpha=1"), groups[1]);
  EXPECT_EQ(find_group(groups, "niid_label_clients=10_alpha=5.0"), groups[2]);
  EXPECT_EQ(find_group(groups, "kmeans_clusters=10"), "kmeans_10");
  EXPECT_EQ(find_group(groups, "uniform_clients=10"), "uniform");
  EXPECT_EQ(find_group(groups, "niid_label_clients=100_alpha=1"), "");
  EXPECT_EQ(find_group(groups, "kmeans_clusters=11"), "");
  EXPECT_EQ(method_of_group("niid_cluster_clients=10_alpha=0.1"), "feature_clusters");
  EXPECT_EQ(method_of_group("nature"), "natural");
  EXPECT_EQ(method_of_group("mine"), "");
}

TEST_F(PartitionFile, JsonRoundTrip) {
  const TestPopulation population(50, 20, 4, 7);
  const auto path = folder_ / "p.json";
  Partition natural = Natural({}).make(population.view, {});
  natural.client_names[3] = "a \"quoted\"\nname \xff";
  natural.clusters = {1, 0, 2};
  write_partition(path, natural);
  const Partition uniform = Uniform({}).make(population.view, {.clients = 3, .seed = ~std::uint64_t{0}});
  write_partition(path, uniform);
  EXPECT_THAT(partition_groups(path), ElementsAre("natural_clients=7", "uniform_clients=3"));
  const Partition read = read_partition(path, "uniform");
  EXPECT_EQ(read.train, uniform.train);
  EXPECT_EQ(read.test, uniform.test);
  EXPECT_EQ(read.info.seed, ~std::uint64_t{0});
  EXPECT_EQ(read.info.method, "uniform");
  EXPECT_EQ(read.info.choices, uniform.info.choices);
  const Partition other = read_partition(path, "nature");
  EXPECT_EQ(other.train, natural.train);
  EXPECT_EQ(other.clusters, natural.clusters);
  EXPECT_EQ(other.client_names[3], "a \"quoted\"\nname \xEF\xBF\xBD");
  EXPECT_EQ(other.info.numbers.at("natural_factors"), 7);
}

TEST_F(PartitionFile, RefusesToOverwriteUnlessForced) {
  const TestPopulation population(50, 20, 4);
  const auto path = folder_ / "p.json";
  const Partition first = Uniform({}).make(population.view, {.clients = 3, .seed = 1});
  const Partition second = Uniform({}).make(population.view, {.clients = 3, .seed = 2});
  write_partition(path, first);
  EXPECT_THAT([&] { write_partition(path, second); }, ThrowsMessage<ConfigError>(HasSubstr("--force")));
  EXPECT_EQ(read_partition(path).train, first.train);
  write_partition(path, second, true);
  EXPECT_EQ(read_partition(path).train, second.train);
  EXPECT_EQ(partition_groups(path).size(), 1u);
}

TEST_F(PartitionFile, SaysWhatIsWrong) {
  EXPECT_THAT([&] { partition_groups(folder_ / "none.h5"); }, ThrowsMessage<DataError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { partition_groups(folder_); }, ThrowsMessage<DataError>(HasSubstr("is a folder")));
  EXPECT_THAT([&] { partition_groups(put("e.h5", "")); }, ThrowsMessage<DataError>(HasSubstr("it is empty")));
  EXPECT_THAT([&] { partition_groups(put("t.h5", "hello")); }, ThrowsMessage<DataError>(HasSubstr("neither HDF5")));
  EXPECT_THAT([&] { partition_groups(put("c.json", "{\"format\": ")); },
              ThrowsMessage<DataError>(HasSubstr("damaged")));
  EXPECT_THAT([&] { partition_groups(put("o.json", "{}")); },
              ThrowsMessage<DataError>(HasSubstr("not a partition file")));
  const std::string head = "{\"format\":\"chorus-partition-1\",\"partitions\":{\"g\":";
  for (const char* bad : {"3", "{}", "{\"clients\":[{\"train\":[1,-2]}]}", "{\"clients\":[{\"train\":[1.5]}]}",
                          "{\"clients\":[{\"train\":[4294967295]}]}", "{\"clients\":[{\"train\":\"x\"}]}",
                          "{\"clients\":[[1]]}", "{\"clients\":[],\"info\":{\"client_names\":[\"a\"]}}"}) {
    const auto path = put("bad.json", head + bad + "}}");
    EXPECT_THROW(read_partition(path, "g"), DataError) << bad;
  }
  const auto path = put("good.json", head + "{\"clients\":[{\"train\":[1],\"test\":[]}]},\"h\":{\"clients\":[]}}}");
  EXPECT_EQ(read_partition(path, "g").train[0][0], 1u);
  EXPECT_THAT([&] { read_partition(path); }, ThrowsMessage<DataError>(HasSubstr("holds 2 partitions")));
  EXPECT_THAT([&] { read_partition(path, "gg"); }, ThrowsMessage<DataError>(HasSubstr("(it has: g, h)")));
  const TestPopulation population(50, 20, 4);
  const Partition partition = Uniform({}).make(population.view, {.clients = 3});
  EXPECT_THAT([&] { write_partition(folder_ / "p.txt", partition); }, ThrowsMessage<ConfigError>(HasSubstr(".json")));
  EXPECT_THAT([&] { write_partition(folder_ / "no" / "p.json", partition); },
              ThrowsMessage<DataError>(HasSubstr("No such file")));
}

}  // namespace
}  // namespace chorus::inline partition

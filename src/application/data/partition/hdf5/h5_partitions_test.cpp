#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "application/data/partition/hdf5/h5_partition_reader.h"
#include "application/data/partition/label_dirichlet.h"
#include "application/data/partition/partition_file.h"
#include "application/data/partition/quantity_dirichlet.h"
#include "application/data/partition/test_population.h"
#include "application/data/partition/uniform.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline partition_hdf5 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path kShared = std::filesystem::path(CHORUS_SOURCE_DIR) / "../shared/data/fednlp_h5";

class H5Partitions : public testing::Test {
 protected:
  H5Partitions() {
    folder_ = std::filesystem::temp_directory_path() / ("chorus_h5_partition_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~H5Partitions() override { std::filesystem::remove_all(folder_); }

  /// A file with one group "g" of two clients, modified by `change`.
  template <typename Change>
  std::filesystem::path crafted(Change change) const {
    const auto path = folder_ / "crafted.h5";
    Partition partition;
    partition.info.group = "g";
    for (const ExampleId id : {0U, 1U}) {
      partition.train.append(std::vector<ExampleId>{id});
      partition.test.append({});
    }
    std::filesystem::remove(path);
    write_partition(path, partition);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t group = H5Gopen2(file, "g", H5P_DEFAULT);
    change(group);
    H5Gclose(group);
    H5Fclose(file);
    return path;
  }

  static void put(hid_t group, const char* name, hid_t type, std::vector<hsize_t> shape, const void* values) {
    H5Ldelete(group, name, H5P_DEFAULT);
    const hid_t space =
        shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t data = H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (values != nullptr) H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(data);
    H5Sclose(space);
  }

  std::filesystem::path folder_;
};

TEST_F(H5Partitions, ReadsWhatH5pyWrote) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << "needs ../shared/data/fednlp_h5";
  const auto news = kShared / "20news_partition.h5";
  EXPECT_THAT(partition_groups(news), ElementsAre("niid_label_clients=10_alpha=1.0", "niid_label_clients=10_alpha=5",
                                                  "niid_quantity_clients=10_beta=5.0", "uniform"));
  const Partition label = read_partition(news, "niid_label_clients=10_alpha=1");
  EXPECT_EQ(label.clients(), 10u);
  EXPECT_EQ(label.info.numbers.at("alpha"), 1.0);
  EXPECT_EQ(label.info.method, "label_dirichlet");
  EXPECT_THAT(label.train[0].first(5), ElementsAre(16, 20, 40, 48, 57));
  EXPECT_THAT(label.train[1].first(5), ElementsAre(1, 13, 21, 23, 42));
  EXPECT_TRUE(check_against_data(label, 520, "20news").exact());
  const Partition uniform = read_partition(news, "uniform_clients=10");
  EXPECT_EQ(uniform.train.size_of(9), 0u);  // an empty client, stored as float64
  EXPECT_EQ(uniform.test.size_of(9), 12u);
  EXPECT_EQ(check_against_data(uniform, 520, "20news").missing, 40u);
  EXPECT_EQ(read_partition(news, "niid_quantity_clients=10_beta=5").info.numbers.at("beta"), 5.0);

  const Partition natural = read_partition(kShared / "mrqa_partition.h5");
  EXPECT_EQ(natural.clients(), 3u);
  EXPECT_EQ(natural.info.numbers.at("natural_factors"), 3.0);
  const Partition kmeans = read_partition(kShared / "w_nut_partition.h5", "kmeans_clusters=10");
  EXPECT_EQ(kmeans.clusters.size(), 380u);
  EXPECT_EQ(read_partition(kShared / "gigaword_partition.h5").info.method, "feature_clusters");
  EXPECT_THAT([&] { check_against_data(label, 250, "20news"); },
              ThrowsMessage<DataError>(HasSubstr("belongs to other data")));
}

TEST_F(H5Partitions, RoundTripAndAdd) {
  const TestPopulation population(1000, 200, 10);
  const auto path = folder_ / "p.h5";
  const Partition label = LabelDirichlet({.alpha = 0.5}).make(population.view, {.clients = 20, .seed = 9});
  const Partition quantity = QuantityDirichlet({.beta = 1, .min_size = 0}).make(population.view, {.clients = 50});
  const Partition sparse = Uniform({}).make(population.view, {.clients = 3000});  // most clients are empty
  write_partition(path, label);
  write_partition(path, quantity);
  write_partition(path, sparse);
  EXPECT_EQ(partition_groups(path).size(), 3u);
  for (const Partition* wrote : {&label, &quantity, &sparse}) {
    const Partition read = read_partition(path, wrote->info.group);
    EXPECT_EQ(read.train, wrote->train);
    EXPECT_EQ(read.test, wrote->test);
    EXPECT_EQ(read.info.seed, wrote->info.seed);
    EXPECT_EQ(read.info.numbers, wrote->info.numbers);
    EXPECT_EQ(read.info.choices, wrote->info.choices);
  }
  EXPECT_THAT([&] { write_partition(path, label); }, ThrowsMessage<ConfigError>(HasSubstr("--force")));
  const Partition again = LabelDirichlet({.alpha = 0.5}).make(population.view, {.clients = 20, .seed = 10});
  write_partition(path, again, true);
  EXPECT_EQ(read_partition(path, label.info.group).train, again.train);
  EXPECT_EQ(read_partition(path, quantity.info.group).train, quantity.train);
  // No temporary file is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator{}), 1);
}

TEST_F(H5Partitions, AddsToFilesOfH5pyAndReplacesOtherSpellings) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << "needs ../shared/data/fednlp_h5";
  const auto path = folder_ / "news.h5";
  std::filesystem::copy_file(kShared / "20news_partition.h5", path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  const TestPopulation population(400, 120, 20);
  Partition mine = LabelDirichlet({.alpha = 1}).make(population.view, {.clients = 10});
  EXPECT_THAT([&] { write_partition(path, mine); }, ThrowsMessage<ConfigError>(HasSubstr("alpha=1.0'")));
  write_partition(path, mine, true);
  EXPECT_THAT(partition_groups(path), ElementsAre("niid_label_clients=10_alpha=1", "niid_label_clients=10_alpha=5",
                                                  "niid_quantity_clients=10_beta=5.0", "uniform"));
  EXPECT_EQ(read_partition(path, "uniform").train, read_partition(kShared / "20news_partition.h5", "uniform").train);
}

TEST_F(H5Partitions, AcceptsClientsWithoutCountOrNumbers) {
  const auto without = crafted([](hid_t group) { H5Ldelete(group, "n_clients", H5P_DEFAULT); });
  EXPECT_EQ(read_partition(without).clients(), 2u);
  const auto named = crafted([](hid_t group) {
    H5Lmove(group, "partition_data/0", group, "partition_data/zoe", H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(group, "partition_data/1", group, "partition_data/adam", H5P_DEFAULT, H5P_DEFAULT);
    H5Ldelete(group, "chorus", H5P_DEFAULT);
  });
  const Partition partition = read_partition(named);
  EXPECT_THAT(partition.client_names, ElementsAre("adam", "zoe"));
  EXPECT_EQ(partition.train[0][0], 1u);
}

TEST_F(H5Partitions, RefusesWhatIsWrong) {
  const auto train = [](hid_t type, std::vector<hsize_t> shape, const void* values) {
    return [=](hid_t group) { put(group, "partition_data/1/train", type, shape, values); };
  };
  const std::int64_t negative = -4, large = std::int64_t{1} << 40, three = 3;
  const double half = 0.5;
  const auto fails = [&](auto change, const char* reason) {
    const auto path = crafted(change);
    EXPECT_THAT([&] { read_partition(path); }, ThrowsMessage<DataError>(HasSubstr(reason)));
  };
  fails(train(H5T_NATIVE_INT64, {1}, &negative), "partition_data/1: train holds -4");
  fails(train(H5T_NATIVE_INT64, {1}, &large), "not an example id");
  fails(train(H5T_NATIVE_DOUBLE, {1}, &half), "does not hold integers");
  fails(train(H5T_NATIVE_INT64, {}, &three), "not a list");
  fails(train(H5T_NATIVE_INT64, {1, 1}, &three), "not a list");
  fails([](hid_t group) { H5Ldelete(group, "partition_data/1/train", H5P_DEFAULT); }, "cannot open train");
  fails([&](hid_t group) { put(group, "n_clients", H5T_NATIVE_INT64, {}, &three); }, "n_clients is 3");
  fails([](hid_t group) { H5Ldelete(group, "partition_data/1", H5P_DEFAULT); }, "n_clients is 2");
  fails([&](hid_t group) { put(group, "alpha", H5T_NATIVE_INT64, {2}, nullptr); }, "alpha is not one number");
  fails([&](hid_t group) { put(group, "partition_data/0", H5T_NATIVE_INT64, {1}, &three); }, "0 is not a group");
  // A list that claims a terabyte without storing it.
  fails(train(H5T_NATIVE_INT64, {std::uint64_t{1} << 37}, nullptr), "more than a file of this size can hold");
}

TEST_F(H5Partitions, RefusesTruncatedFilesWithoutCrashing) {
  const TestPopulation population(300, 60, 4);
  const auto path = folder_ / "whole.h5";
  write_partition(path, Uniform({}).make(population.view, {.clients = 20}));
  const std::string bytes = read_file(path);
  const auto cut = folder_ / "cut.h5";
  for (std::size_t size = 8; size < bytes.size(); size += 1 + bytes.size() / 97) {
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, size);
    EXPECT_THROW(read_partition(cut), DataError) << size << " bytes of " << bytes.size();
  }
  // Any byte changed: either an error or a partition, never a crash.
  RandomStream stream({.seed = 2, .purpose = "test.damage"});
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[stream.below(damaged.size())] ^= static_cast<char>(1 + stream.below(255));
    std::ofstream(cut, std::ios::binary) << damaged;
    try {
      read_partition(cut);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
}

TEST_F(H5Partitions, TwoWritersLoseNothing) {
  const auto path = folder_ / "shared.h5";
  const TestPopulation population(300, 60, 4);
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 0;
      try {
        for (int i = 0; i < 5; ++i) {
          Partition partition = Uniform({}).make(population.view, {.clients = 5});
          partition.info.group = "g" + std::to_string(writer) + "x" + std::to_string(i);
          write_partition(path, partition);
        }
      } catch (const std::exception&) {
        status = 1;
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(partition_groups(path).size(), 20u);
}

TEST_F(H5Partitions, ManyClients) {
  const TestPopulation population(180'000, 20'000, 4);
  const Partition partition = Uniform({}).make(population.view, {.clients = 20'000});
  const auto path = folder_ / "large.h5";
  const auto start = std::chrono::steady_clock::now();
  write_partition(path, partition);
  const std::chrono::duration<double> writing = std::chrono::steady_clock::now() - start;
  const Partition read = read_partition(path);
  const std::chrono::duration<double> both = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(read.train, partition.train);
  RecordProperty("write_seconds", std::to_string(writing.count()));
  RecordProperty("read_seconds", std::to_string((both - writing).count()));
  RecordProperty("bytes", std::to_string(std::filesystem::file_size(path)));
}

TEST_F(H5Partitions, AFullDiskIsAnError) {
  const auto path = folder_ / "full.h5";
  const auto write = [&] {
    const rlimit limit{4096, 4096};  // a file may not grow beyond it: as a full disk
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    Partition partition;
    partition.info.group = "g";
    for (ExampleId client = 0; client < 200; ++client) {
      partition.train.append(std::vector<ExampleId>(100, client));
      partition.test.append({});
    }
    try {
      write_partition(path, partition);
    } catch (const WorldError& error) {
      std::fputs(error.what(), stderr);
      std::exit(7);  // closes the library, too
    }
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write(), testing::ExitedWithCode(7), "full.h5");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace chorus::inline partition_hdf5

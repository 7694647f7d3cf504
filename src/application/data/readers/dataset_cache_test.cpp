#include "application/data/readers/dataset_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "application/data/dataset_builder.h"
#include "application/data/dataset_file.h"
#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline readers {
namespace {

namespace fs = std::filesystem;

/// Every kind of column, with some examples that lack it.
Dataset mixed() {
  DatasetBuilder builder({.formulation = Formulation::kSequenceTagging, .allow_new_labels = true});
  for (int i = 0; i < 40; ++i) {
    Record record;
    record.text = i % 3 == 0 ? "" : "text " + std::string(static_cast<std::size_t>(i) * 20000, 'x');
    record.second = i > 30 ? "second" : "";
    record.words = {"a", "b", "word" + std::to_string(i)};
    if (i % 2 == 0) record.tags = {"O", "B-x", "O"};
    if (i > 5) record.label = i % 2 == 0 ? "even" : "odd";
    if (i == 7) record.answers = {{"", 0, 0}, {"an answer", 3, 12}};
    if (i > 20) record.client = "client" + std::to_string(i % 4);
    if (i > 25) record.source = "source";
    if (i > 28) record.time = i;
    if (i == 33) record.score = 0.5;
    builder.add(record, i < 30 ? Split::kTrain : Split::kTest);
  }
  return std::move(builder).finish();
}

void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.formulation(), b.formulation());
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_EQ(a.report().notes, b.report().notes);
  EXPECT_EQ(a.report().records, b.report().records);
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    EXPECT_TRUE(std::ranges::equal(a.split(split), b.split(split)));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Example x = a.at(i), y = b.at(i);
    EXPECT_EQ(std::tie(x.id, x.text, x.second, x.label, x.client, x.source, x.time, x.split),
              std::tie(y.id, y.text, y.second, y.label, y.client, y.source, y.time, y.split));
    EXPECT_TRUE(x.score == y.score || (x.score != x.score && y.score != y.score));
    EXPECT_TRUE(std::ranges::equal(x.tags, y.tags));
    ASSERT_EQ(x.words.size(), y.words.size());
    for (std::size_t w = 0; w < x.words.size(); ++w) EXPECT_EQ(x.words[w], y.words[w]);
    ASSERT_EQ(x.answers.size(), y.answers.size());
    for (std::size_t k = 0; k < x.answers.size(); ++k) {
      EXPECT_EQ(x.answers[k].text, y.answers[k].text);
      EXPECT_EQ(std::pair(x.answers[k].begin, x.answers[k].end), std::pair(y.answers[k].begin, y.answers[k].end));
    }
  }
  for (const auto& [x, y] : {std::pair(&a.labels(), &b.labels()), std::pair(&a.tags(), &b.tags())}) {
    ASSERT_EQ(x->size(), y->size());
    for (std::size_t id = 0; id < x->size(); ++id) EXPECT_EQ(y->find(x->at(static_cast<std::int32_t>(id))), id);
  }
}

class DatasetCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_dataset_cache_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A file of 2 MiB, written an hour ago.
  std::string corpus(const std::string& first) const {
    const fs::path path = folder_ / "train.txt";
    std::ofstream(path) << first << "\n" << std::string(2 << 20, 'y') << "\n";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return path.string();
  }
  DataConfig config(const std::string& path) const {
    DataConfig config;
    config.train = {path};
    config.cache = (folder_ / "cache").string();
    return config;
  }
  fs::path kept() const {
    fs::path found;
    if (!fs::exists(folder_ / "cache")) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache")) {
      if (!entry.is_regular_file()) continue;
      EXPECT_EQ(found, fs::path()) << "two files are kept";
      found = entry.path();
    }
    return found;
  }

  fs::path folder_;
};

TEST_F(DatasetCacheTest, FileGivesBackEveryColumn) {
  const Dataset data = mixed();
  DatasetFile::write(folder_ / "file", {1, 2}, data);
  const auto back = DatasetFile::open(folder_ / "file", {1, 2});
  ASSERT_TRUE(back);
  expect_same(data, *back);
  EXPECT_FALSE(DatasetFile::open(folder_ / "file", {1, 3}));
}

TEST_F(DatasetCacheTest, EveryCutAndChangedByteIsNoticed) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  Record record;
  record.text = "a text";
  record.label = "a label";
  builder.add(record, Split::kTrain);
  DatasetFile::write(folder_ / "file", {1, 2}, std::move(builder).finish());
  const std::string good = read_file(folder_ / "file");
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(folder_ / "bad", std::ios::binary) << bytes;
    try {
      // Another version is ignored; everything else is damage.
      return !DatasetFile::open(folder_ / "bad", {1, 2}).has_value();
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith((folder_ / "bad").string()));
      return true;
    }
  };
  std::uint64_t body = 0;
  std::memcpy(&body, good.data() + 32, sizeof(body));
  const std::size_t body_end = 96 + static_cast<std::size_t>(body);
  ASSERT_LT(body_end, 4096U);
  for (std::size_t at = 0; at < good.size(); at += at < body_end ? 1 : 5003) {
    if (at == body_end) at = 4096;  // the padding between body and texts is not checked
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_TRUE(refused(bytes)) << at;
  }
  for (const std::size_t length : {0UL, 7UL, 50UL, 96UL, 200UL, good.size() - 1}) {
    EXPECT_TRUE(refused(good.substr(0, length))) << length;
  }
  EXPECT_TRUE(refused(good + "x"));
}

TEST_F(DatasetCacheTest, SecondOpeningComesFromTheFile) {
  const DataConfig settings = config(corpus("first"));
  const Dataset read = open_dataset(settings);
  const fs::path file = kept();
  ASSERT_FALSE(file.empty());
  const auto written = fs::last_write_time(file);
  expect_same(read, open_dataset(settings));
  EXPECT_EQ(fs::last_write_time(file), written);

  // Other options use another file; a damaged file is rebuilt; a changed corpus is detected.
  fs::resize_file(file, fs::file_size(file) - 5);
  expect_same(read, open_dataset(settings));
  EXPECT_GT(fs::file_size(file), StringArena::kBlock);
  corpus("other");
  EXPECT_EQ(open_dataset(settings).text(0), "other");
  EXPECT_EQ(kept(), file);
}

TEST_F(DatasetCacheTest, OptionsAreTold) {
  DataConfig settings = config(corpus("first"));
  EXPECT_EQ(open_dataset(settings).size(), 2);
  settings.limit = 1;
  EXPECT_EQ(open_dataset(settings).size(), 1);
}

TEST_F(DatasetCacheTest, NothingIsKeptOfSmallOrFreshFilesOrWhenNotWanted) {
  const std::string path = corpus("first");
  DataConfig settings = config(path);
  fs::last_write_time(path, fs::file_time_type::clock::now());
  open_dataset(settings);
  EXPECT_TRUE(kept().empty());
  corpus("first");
  settings.cache = "none";
  open_dataset(settings);
  EXPECT_TRUE(kept().empty());
  std::ofstream(path) << "small\n";
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  open_dataset(config(path));
  EXPECT_TRUE(kept().empty());
}

TEST_F(DatasetCacheTest, UnwritableCacheIsNoFailure) {
  DataConfig settings = config(corpus("first"));
  std::ofstream(folder_ / "occupied") << "a file";
  settings.cache = (folder_ / "occupied").string();
  EXPECT_EQ(open_dataset(settings).size(), 2);
}

}  // namespace
}  // namespace chorus::inline readers

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "application/data/readers/format.h"
#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline hdf5 {
namespace {

namespace fs = std::filesystem;

const std::string kFixtures = std::string(CHORUS_SOURCE_DIR) + "/tests/fixtures/data/fednlp/";

Dataset read(const std::string& path, DataConfig config = {}) {
  config.train = {path};
  return open_dataset(config);
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// The checksum of all fields in order, as tests/golden/make_fednlp_h5.py takes it from h5py.
std::uint64_t checksum(const Dataset& data) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Example example = data.at(i);
    std::string fields = name_of(example.split);
    const auto add = [&](std::string_view field) { fields.append("\x1f").append(field); };
    for (std::size_t w = 0; w < example.words.size(); ++w) add(example.words[w]);
    for (const std::int32_t tag : example.tags) add(data.tags().at(tag));
    if (example.words.empty()) add(example.text);
    if (data.formulation() == Formulation::kSpanExtraction || data.formulation() == Formulation::kSeq2Seq) {
      add(example.second);
    }
    for (std::size_t a = 0; a < example.answers.size(); ++a) {
      const AnswerView answer = example.answers[a];
      add(answer.text);
      add(std::to_string(answer.begin));
      add(std::to_string(answer.end));
    }
    if (example.label >= 0) add(data.labels().at(example.label));
    if (example.source >= 0) add(data.sources().at(example.source));
    fields += '\x1e';
    sum = crc32(sum, reinterpret_cast<const Bytef*>(fields.data()), static_cast<uInt>(fields.size()));
  }
  return sum;
}

TEST(FednlpReader, ReadsEveryFileAsH5pyDoes) {
  std::ifstream golden(kFixtures + "fednlp_h5.txt");
  const std::string shared = std::string(CHORUS_SOURCE_DIR) + "/../shared/data/fednlp_h5/";
  std::string where;
  std::string name;
  std::size_t count = 0;
  std::uint64_t sum = 0;
  int files = 0;
  while (golden >> where >> name >> count >> sum) {
    const std::string path = (where == "own" ? kFixtures : shared) + name;
    if (where == "shared" && !fs::exists(path)) continue;
    const Dataset data = read(path);
    EXPECT_EQ(data.size(), count) << name;
    EXPECT_EQ(checksum(data), sum) << name;
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(FednlpReader, StoredVocabularyAndSplitsAreAuthoritative) {
  const Dataset data = read(kFixtures + "classes_data.h5");
  EXPECT_EQ(data.formulation(), Formulation::kTextClassification);
  EXPECT_EQ(data.labels().size(), 3U);
  EXPECT_EQ(data.labels().at(0), "b");
  EXPECT_EQ(data.labels().at(1), "never");
  EXPECT_EQ(data.at(0).label, 2);
  EXPECT_EQ(data.split(Split::kTest).front(), 3U);
  EXPECT_EQ(data.at(2).text, "") << "an empty text is kept: positions are ids";
  EXPECT_EQ(data.report().empty, 1U);
}

TEST(FednlpReader, FindsWhatAFileLeavesOut) {
  EXPECT_EQ(read(kFixtures + "pairs_data.h5").formulation(), Formulation::kSeq2Seq);
  const Dataset chunked = read(kFixtures + "chunked_data.h5");
  EXPECT_EQ(chunked.formulation(), Formulation::kLanguageModel);
  EXPECT_EQ(chunked.split(Split::kTrain).size(), 9U);
  EXPECT_EQ(chunked.at(10).text, "line 10");
  const Dataset spans = read(kFixtures + "spans_plain_data.h5");
  EXPECT_EQ(spans.at(0).answers[0].text, "cat");
  EXPECT_EQ(spans.at(1).id, "1");
  EXPECT_EQ(spans.sources().at(spans.at(0).source), "4");
  EXPECT_EQ(read(kFixtures + "spans_data.h5").at(2).id, "q2");
  EXPECT_EQ(read(kFixtures + "numbers_data.h5").labels().at(0), "7");
  EXPECT_EQ(read(kFixtures + "fixed_data.h5").at(1).text, "length");
}

TEST(FednlpReader, RefusesWhatIsNotOne) {
  const fs::path folder = fs::temp_directory_path() / ("chorus_fednlp_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  };
  DataConfig config;
  config.format = "fednlp";
  EXPECT_HAS(message_of<Error>([&] { read(write("a.h5", "no HDF5 here"), config); }), "not an HDF5 file");
  EXPECT_HAS(message_of<Error>([&] { read((folder / "none.h5").string(), config); }), "no such file");
  std::ifstream whole(kFixtures + "classes_data.h5", std::ios::binary);
  std::stringstream bytes;
  bytes << whole.rdbuf();
  const std::string good = bytes.str();
  for (std::size_t size = 8; size < good.size(); size += good.size() / 37) {
    const std::string error = message_of<Error>([&] { read(write("cut.h5", good.substr(0, size))); });
    EXPECT_HAS(error, "cut.h5");
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace chorus::inline hdf5

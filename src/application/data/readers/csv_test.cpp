#include "application/data/readers/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline readers {
namespace {

/// A folder, removed after the test.
class CsvFiles : public testing::Test {
 protected:
  CsvFiles() { std::filesystem::create_directories(folder_); }
  ~CsvFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("chorus_csv_" + std::to_string(::getpid()));
};

Dataset read_csv(const std::string& path, DataConfig config = {}) {
  config.train = {path};
  return open_dataset(config);
}

Dataset csv_fixture(const std::string& name, DataConfig config = {}) {
  return read_csv(std::string(CHORUS_SOURCE_DIR) + "/tests/fixtures/data/" + name, std::move(config));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(CsvFiles, WithAndWithoutQuotesAndHeader) {
  const Dataset data = csv_fixture("quoted.csv");
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.at(0).text, "a \"quoted\", text\nover two lines");
  EXPECT_EQ(data.labels().at(data.at(1).label), "0");
  EXPECT_EQ(data.clients().at(data.at(1).client), "u2");

  const Dataset news = csv_fixture("news.csv");
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news.at(0).text, "Title one Body, one");
  EXPECT_EQ(news.labels().at(news.at(0).label), "3");
  DataConfig config;
  config.columns.text = "3";
  config.columns.label = "1";
  EXPECT_EQ(csv_fixture("news.csv", config).at(0).text, "Body, one");

  const Dataset table = csv_fixture("table.tsv");
  EXPECT_EQ(table.formulation(), Formulation::kPairClassification);
  EXPECT_EQ(table.at(0).text, "\"open quote");
}

TEST_F(CsvFiles, OtherDelimiters) {
  for (const char delimiter : {';', '\t', '|'}) {
    std::string text = "text;label\n\"one, two; three\";a\nfour, five;b\n";
    for (char& c : text) c = c == ';' && (&c - text.data() < 11 || *(&c + 1) != ' ') ? delimiter : c;
    const Dataset data = read_csv(write("a.csv", text));
    ASSERT_EQ(data.size(), 2U) << delimiter;
    EXPECT_EQ(data.formulation(), Formulation::kTextClassification);
    EXPECT_EQ(data.at(0).text, "one, two; three");
    EXPECT_EQ(data.at(1).text, "four, five");
  }
  // One column of prose that happens to have semicolons.
  const Dataset prose = read_csv(write("a.csv", "text\nI came; I saw\nI left\n"));
  ASSERT_EQ(prose.size(), 2U);
  EXPECT_EQ(prose.at(0).text, "I came; I saw");
}

TEST_F(CsvFiles, EachMayBeAClient) {
  DataConfig config;
  config.client_files = true;
  config.train = {write("anna.csv", "text,label\none,a\n"), write("ben.csv", "text,label\ntwo,b\nthree,a\n"),
                  write("mixed.csv", "text,label,client\nfour,b,carl\n")};
  const Dataset data = open_dataset(config);
  std::vector<std::string> clients;
  for (const std::int32_t id : data.client_ids()) clients.emplace_back(data.clients().at(id));
  EXPECT_THAT(clients, testing::ElementsAre("anna", "ben", "ben", "carl"));
}

TEST_F(CsvFiles, Mistakes) {
  EXPECT_PRED2(has, message_of<Error>([&] { read_csv(write("a.csv", "text,label\nx,1\ny\n")); }),
               "a.csv:3: 1 fields, but the header has 2");
  EXPECT_PRED2(has, message_of<Error>([&] { read_csv(write("a.csv", "text,label\nx,1\n\"y,2\nz,3\n")); }),
               "a.csv:3: a quote that opens");
  DataConfig config;
  config.columns.text = "title";
  const std::string error = message_of<Error>([&] { read_csv(write("a.csv", "text,label\nx,1\n"), config); });
  EXPECT_PRED2(has, error, "a.csv:1: unknown column 'title'");
  EXPECT_PRED2(has, error, "text, label");
  const std::string advice = message_of<Error>([&] { read_csv(write("a.csv", "Kommentar,Note\nschön,gut\n")); });
  EXPECT_PRED2(has, advice, "a.csv:1: the first row ('Kommentar', 'Note') has no column name that Chorus knows");
  EXPECT_PRED2(has, advice, "--column text=NAME --column label=NAME; in a configuration data.columns.text=NAME");
  config = {};
  config.columns.text = "Kommentar";
  config.columns.label = "Note";
  const Dataset named = read_csv(write("a.csv", "Kommentar,Note\nschön,gut\n"), config);
  EXPECT_EQ(named.size(), 1U);
  EXPECT_EQ(named.at(0).text, "schön");
}

}  // namespace
}  // namespace chorus::inline readers

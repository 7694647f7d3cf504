#include "apps/serving/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/serving/job_offer.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

Job job() {
  Job job;
  job.client = 3;
  job.run = 77;
  job.rounds = 10;
  job.config = "kind: experiment\n";
  job.facts = "{}";
  job.files = {{"model", "config.json", 12, std::string(32, 'a')}};
  return job;
}

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return message_of<DataError>([&] { (void)parse_job(text); });
}

TEST(Job, ClientsGetThePublicTextsAndNotTheQueries) {
  TemporaryFolder folder;
  std::ofstream(folder / "texts.jsonl.gz") << "texts";
  auto config = ConfigDocument::parse(
                    "{data: {test: [x]}, task: text_classification, algorithm: ds_fl, public: {}, model: "
                    "{fresh: {model_type: bert}, tokenizer: " CHORUS_SOURCE_DIR "/models/chorus-mini}}",
                    "job")
                    .load<ExperimentConfig>();
  config.publics->unlabelled = {(folder / "texts.jsonl.gz").string()};
  config.publics->query = {(folder / "secret.jsonl").string()};
  const ModelFiles sent = model_files(config);
  ASSERT_FALSE(sent.files.empty());
  EXPECT_EQ(sent.files.back().place, "public");
  EXPECT_EQ(sent.files.back().name, "0.jsonl.gz");
  EXPECT_THAT(config_for_clients(config), Not(AnyOf(HasSubstr("secret"), HasSubstr(folder.path().string()))));
}

// Neither the server's files nor what a hostile server would like to know of a client's.
TEST(Job, NoFileOfTheOtherMachineIsNamed) {
  TemporaryFolder folder;
  std::ofstream(folder / "trace.csv") << "client,start,end\n0,0,1\n";
  const std::string trace = (folder / "trace.csv").string();
  const auto config = ConfigDocument::parse(
                          "{data: {train: [x], validation: [y], test: [z]}, task: text_classification, "
                          "model: {from: m}, selection: {name: available, trace: " +
                              trace + "}}",
                          "job")
                          .load<ExperimentConfig>();
  const std::string sent = config_for_clients(config);
  EXPECT_THAT(sent, Not(HasSubstr("trace.csv")));
  const auto read = ConfigDocument::parse(sent, "job").ignore_paths().load<ExperimentConfig>();
  EXPECT_EQ(read.selection.name(), "available");
  EXPECT_TRUE(read.data.validation.empty());
}

TEST(Job, RoundTrips) { EXPECT_EQ(to_json(parse_job(to_json(job()))), to_json(job())); }

// Case 24 of the list of hostile inputs: what a JSON document can do to its reader.
TEST(JobCase24, HostileJsonIsRefusedInOneSentence) {
  const std::string good = to_json(job());
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":1e400"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":-1"), HasSubstr("\"rounds\" is not a number"));
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":\"10\""), HasSubstr("\"rounds\" is not a number"));
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":10,\"rounds\":11"), HasSubstr("\"rounds\" twice"));
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":10,\"shell\":1"), HasSubstr("does not know"));
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"round\":10"), HasSubstr("no \"rounds\""));
  EXPECT_THAT(refusal(good, "config.json", "../config.json"), HasSubstr("name is not acceptable"));
  EXPECT_THAT(refusal(good, "\"model\"", "\"public/..\""), HasSubstr("belongs nowhere"));
  EXPECT_THAT(refusal(good, "kind: experiment", std::string(2U << 20U, 'x')), HasSubstr("\"config\" is not a text"));
  EXPECT_THAT(refusal(good, "kind: experiment", std::string(200U << 20U, 'x')), HasSubstr("too long"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(refusal(good, "\"rounds\":10", "\"rounds\":" + deep), HasSubstr("\"rounds\" is not a number"));
  EXPECT_THAT(message_of<DataError>([&] { (void)parse_job(deep); }), HasSubstr("no JSON object"));
}

TEST(Jobs, TheListOfMissingFilesHasDigestsOnly) {
  const std::string digest(32, 'a');
  EXPECT_EQ(parse_wanted("[\"" + digest + "\"]", 1), std::vector<std::string>{digest});
  EXPECT_TRUE(parse_wanted("[]", 1).empty());
  const std::string two = "[\"" + digest + "\", \"" + digest + "\"]";
  for (const std::string& bad : {two, std::string("{}"), std::string("[1]"), std::string("[\"../key\"]"),
                                 std::string(1000, '['), std::string("[") + std::string(1000, ' ') + "]"}) {
    EXPECT_THROW((void)parse_wanted(bad, 1), DataError) << bad;
  }
}

TEST(Jobs, PublicFilesAreText) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"hello\"}\n");
  write_file(folder / "b.h5", std::string("\x89HDF\r\n\x1a\n", 8) + std::string(100, '\0'));
  EXPECT_NO_THROW(check_public_file(folder / "a.jsonl", "auto"));
  EXPECT_THROW(check_public_file(folder / "b.h5", "auto"), DataError);
  EXPECT_THROW(check_public_file(folder / "a.jsonl", "fednlp"), DataError);
}

}  // namespace
}  // namespace chorus::inline serving

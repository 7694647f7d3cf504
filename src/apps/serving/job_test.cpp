#include "apps/serving/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/serving/job_offer.h"
#include "core/base/error.h"
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
  ExperimentConfig config;
  config.publics.emplace();
  config.publics->unlabelled = {(folder / "texts.jsonl.gz").string()};
  config.publics->query = {(folder / "secret.jsonl").string()};
  const ModelFiles sent = model_files(config);
  ASSERT_EQ(sent.files.size(), 1U);
  EXPECT_EQ(sent.files[0].place, "public");
  EXPECT_EQ(sent.files[0].name, "0.jsonl.gz");
  EXPECT_THAT(config_for_clients(config), Not(AnyOf(HasSubstr("secret"), HasSubstr(folder.path().string()))));
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

}  // namespace
}  // namespace chorus::inline serving

#include "apps/serving/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

using testing::HasSubstr;

Policy policy_of(const std::string& yaml) { return ConfigDocument::parse(yaml, "policy.yaml").load<Policy>(); }

ExperimentConfig job_of(const std::vector<std::string>& overrides = {}) {
  return ConfigDocument::parse(
             "data: {train: [x]}\ntask: text_classification\nmodel: {from: m}\nclients_per_round: 5\n", "job",
             overrides)
      .load<ExperimentConfig>();
}

PolicyMoment moment_of(const std::string& procedure) { return {"text_classification", procedure, 0, 0, 0, {}}; }

TEST(Policy, TasksFilesAndProcedures) {
  const Policy policy = policy_of(
      "allow:\n"
      "  - {task: text_classification, files: [/data/notes], procedures: [train]}\n"
      "  - {task: seq_tagging}\n");
  EXPECT_EQ(refusal_of_job(policy, job_of(), {"/data/notes/a.jsonl", "/data/notes"}), "");
  EXPECT_THAT(refusal_of_job(policy, job_of(), {"/data/notes/../letters.jsonl"}),
              HasSubstr("does not allow its files"));
  EXPECT_THAT(refusal_of_job(policy, job_of(), {"/data/notes2/a.jsonl"}), HasSubstr("does not allow its files"));
  EXPECT_THAT(refusal_of_job(policy, job_of({"task=causal_lm"}), {}), HasSubstr("does not allow the task"));
  EXPECT_EQ(refusal_of_job(policy, job_of({"task=seq_tagging"}), {"/anywhere"}), "");
  EXPECT_EQ(refusal_of_request(policy, moment_of("train")), "");
  EXPECT_EQ(refusal_of_request(policy, moment_of("scaffold/train")),
            "its policy does not allow the procedure scaffold/train");
  EXPECT_EQ(refusal_of_request({}, moment_of("anything")), "");
}

// One entry's files do not lend themselves to another's procedures.
TEST(Policy, ProceduresBelongToTheFilesOfTheirEntry) {
  const Policy policy = policy_of(
      "allow:\n"
      "  - {files: [/data/notes], procedures: [train]}\n"
      "  - {files: [/data/letters], procedures: [evaluate]}\n");
  EXPECT_EQ(refusal_of_job(policy, job_of(), {"/data/notes/a", "/data/letters/b"}), "");
  PolicyMoment moment = moment_of("train");
  moment.files = {"/data/notes/a"};
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.files = {"/data/notes/a", "/data/letters/b"};
  EXPECT_EQ(refusal_of_request(policy, moment), "its policy does not allow the procedure train with its files");
  moment = moment_of("evaluate");
  moment.files = {"/data/letters/b"};
  EXPECT_EQ(refusal_of_request(policy, moment), "");
}

TEST(Policy, NamesThatDoNotExistAreRefused) {
  EXPECT_THAT(message_of<ConfigError>([] { policy_of("allow: [{task: text_clasification}]"); }),
              HasSubstr("did you mean 'text_classification'"));
  EXPECT_THAT(message_of<ConfigError>([] { policy_of("allow: [{procedures: [trian]}]"); }),
              HasSubstr("did you mean 'train'"));
}

TEST(Policy, Protections) {
  Policy policy;
  policy.secure_aggregation = 4;
  EXPECT_THAT(refusal_of_job(policy, job_of(), {}), HasSubstr("requires secure aggregation"));
  EXPECT_THAT(refusal_of_request(policy, moment_of("train")), HasSubstr("requires secure aggregation"));
  EXPECT_EQ(refusal_of_job(policy, job_of({"aggregation={name: secagg, least_clients: 5}"}), {}), "");
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=secagg"}), {}), HasSubstr("at least 4 others"));
  PolicyMoment moment = moment_of("secure/begin");
  moment.sum = StatedSum{"train", {.least = 5}};
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.sum->terms.least = 3;  // less than the configuration said
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("at least 4 others"));
  policy.secure_aggregation = 0;
  policy.active_server = true;
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=secagg"}), {}), HasSubstr("active server"));
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=light_secagg"}), {}), HasSubstr("active server"));
  EXPECT_EQ(refusal_of_job(policy, job_of({"aggregation={name: secagg, server: active}"}), {}), "");
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("trusts the server"));
  moment.sum->terms.active = true;
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  policy = policy_of("allow: [{procedures: [train]}]");
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.sum->trains = "fedsgd/gradient";
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("procedure"));
  policy = {};
  policy.epsilon = 2;
  EXPECT_THAT(refusal_of_job(policy, job_of(), {}), HasSubstr("promises none"));
}

// What counts is a group: its sum is what the server sees.
TEST(Policy, SecureGroupsAreSecureSumsOfTheirGroups) {
  const auto groups = [](const std::string& sum) {
    return job_of(
        {"aggregation={name: secure_groups, groups: 5, rule: mean, sum: " + sum + "}", "clients_per_round=100"});
  };
  Policy policy;
  policy.secure_aggregation = 4;
  EXPECT_EQ(refusal_of_job(policy, groups("{name: secagg_plus, least_clients: 5}"), {}), "");
  EXPECT_THAT(refusal_of_job(policy, groups("{name: secagg_plus, least_clients: 4}"), {}),
              HasSubstr("at least 4 others, and the run's may have 3"));
  policy.active_server = true;
  EXPECT_THAT(refusal_of_job(policy, groups("{name: secagg, least_clients: 5}"), {}), HasSubstr("active server"));
  EXPECT_EQ(refusal_of_job(policy, groups("{name: secagg, least_clients: 5, server: active}"), {}), "");
  EXPECT_THAT(what_the_server_sees(groups("secagg")), HasSubstr("sums of updates"));
}

// Sums that are only modelled protect nobody.
TEST(Policy, ModelledSumsAreNotSecure) {
  Policy policy;
  policy.secure_aggregation = 2;
  const ExperimentConfig job = job_of({"aggregation={name: secagg, mode: cost}"});
  EXPECT_THAT(refusal_of_job(policy, job, {}), HasSubstr("requires secure aggregation"));
  EXPECT_THAT(what_the_server_sees(job), HasSubstr("each update"));
}

// Clients of fedbuff hold an update until it is summed: they reply with nothing.
TEST(Policy, HoldingAnUpdateIsPartOfASecureSum) {
  Policy policy;
  policy.secure_aggregation = 2;
  policy.active_server = true;
  EXPECT_EQ(refusal_of_request(policy, moment_of("fedbuff/hold")), "");
  EXPECT_THAT(refusal_of_request(policy, moment_of("fedbuff/release")), HasSubstr("requires secure aggregation"));
}

TEST(Policy, HoursAndBytes) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const auto at = [](int hour) { return static_cast<std::time_t>(hour) * 3600; };
  PolicyMoment moment = moment_of("train");
  Policy policy = policy_of("hours: 20:00-06:00");
  for (const int hour : {20, 23, 0, 5}) {
    moment.now = at(hour);
    EXPECT_EQ(refusal_of_request(policy, moment), "") << hour;
  }
  for (const int hour : {6, 12, 19}) {
    moment.now = at(hour);
    EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("from 20:00-06:00")) << hour;
  }
  policy = policy_of("megabytes_per_day: 1");
  moment.bytes_today = 600'000;
  moment.bytes_next = 400'000;
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.bytes_next = 400'001;
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("1 MB per day"));
  EXPECT_THAT(message_of<ConfigError>([] { policy_of("hours: 8pm"); }), HasSubstr("HH:MM-HH:MM"));
}

}  // namespace
}  // namespace chorus::inline serving

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

TEST(Policy, Protections) {
  Policy policy;
  policy.secure_aggregation = 4;
  EXPECT_THAT(refusal_of_job(policy, job_of(), {}), HasSubstr("requires secure aggregation"));
  EXPECT_THAT(refusal_of_request(policy, moment_of("train")), HasSubstr("requires secure aggregation"));
  EXPECT_EQ(refusal_of_job(policy, job_of({"aggregation={name: secagg, least_clients: 5}"}), {}), "");
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=secagg"}), {}), HasSubstr("at least 4 others"));
  PolicyMoment moment = moment_of("secure/begin");
  moment.sum = {"train", 5, false};
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.sum.clients = 3;  // less than the configuration said
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("at least 4 others"));
  policy.secure_aggregation = 0;
  policy.active_server = true;
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=secagg"}), {}), HasSubstr("active server"));
  EXPECT_THAT(refusal_of_job(policy, job_of({"aggregation=light_secagg"}), {}), HasSubstr("active server"));
  EXPECT_EQ(refusal_of_job(policy, job_of({"aggregation={name: secagg, server: active}"}), {}), "");
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("trusts the server"));
  moment.sum.active = true;
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  policy = policy_of("allow: [{procedures: [train]}]");
  EXPECT_EQ(refusal_of_request(policy, moment), "");
  moment.sum.trains = "fedsgd/gradient";
  EXPECT_THAT(refusal_of_request(policy, moment), HasSubstr("procedure"));
  policy = {};
  policy.epsilon = 2;
  EXPECT_THAT(refusal_of_job(policy, job_of(), {}), HasSubstr("promises none"));
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

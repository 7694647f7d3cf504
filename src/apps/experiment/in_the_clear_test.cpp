#include "apps/experiment/in_the_clear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

using testing::HasSubstr;

std::string clear_mistake(const std::string& more) {
  const std::string yaml =
      "kind: experiment\ntask: text_classification\nmodel: {from: somewhere}\ndata: {train: [x.jsonl]}\n" + more + "\n";
  try {
    ConfigDocument::parse(yaml, "test.yaml").load<ExperimentConfig>();
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(InTheClear, ScoresAndSizesOfSingleClientsAreRefusedUnderMasks) {
  for (const std::string masked : {"aggregation: secagg\n", "aggregation: light_secagg\n",
                                   "clients_per_round: 9\naggregation: {name: secure_groups, groups: 3}\n"}) {
    EXPECT_THAT(clear_mistake(masked + "evaluation: {personal: {fine_tuning: 1}}"), HasSubstr("evaluation.personal"));
    EXPECT_THAT(clear_mistake(masked + "evaluation: {per_client: true}"), HasSubstr("evaluation.per_client"));
    for (const char* algorithm : {"fedper", "fedrep", "{name: lg_fedavg, private: [0]}", "{name: fedbn}"}) {
      EXPECT_THAT(clear_mistake(masked + "algorithm: " + algorithm), HasSubstr("each client's own model")) << algorithm;
    }
    for (const char* selection : {"weighted", "stratified", "heavy", "light"}) {
      EXPECT_THAT(clear_mistake(masked + "selection: " + selection), HasSubstr("numbers of examples")) << selection;
      EXPECT_THAT(clear_mistake(masked + "selection: {name: available, selector: " + selection + "}"),
                  HasSubstr("numbers of examples"));
    }
    EXPECT_THAT(clear_mistake(masked + "selection: {name: available, selector: power_of_choice}"),
                HasSubstr("its loss"));
    for (const char* fits : {"selection: fednlp", "selection: {name: available, selector: uniform}", "algorithm: ditto",
                             "algorithm: apfl", "algorithm: per_fedavg", "algorithm: pfedme"}) {
      EXPECT_EQ(clear_mistake(masked + fits), "") << fits;
    }
  }
  EXPECT_EQ(clear_mistake("evaluation: {personal: {fine_tuning: 1}}\nalgorithm: fedper\nselection: weighted"), "");
}

}  // namespace
}  // namespace chorus::inline experiment

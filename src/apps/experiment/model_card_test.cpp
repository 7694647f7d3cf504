#include "apps/experiment/model_card.h"

#include <gtest/gtest.h>

#include "core/config/config.h"

namespace chorus::inline experiment {
namespace {

std::string text_of_yaml(const std::string& aggregation) {
  struct Holder {
    Choice<Aggregations> aggregation{"mean"};
    void describe(ConfigVisitor& visitor) { visitor.field("aggregation", aggregation, ""); }
  };
  return aggregation_text(ConfigDocument::parse("aggregation: " + aggregation, "test").load<Holder>().aggregation);
}

// Logs, reports and client policies name the mode of a secure sum.
TEST(AggregationText, NamesTheModeOfSecureSums) {
  EXPECT_EQ(text_of_yaml("mean"), "mean");
  EXPECT_EQ(text_of_yaml("secagg_plus"), "secagg_plus (semi-honest server)");
  EXPECT_EQ(text_of_yaml("{name: secagg, server: active}"), "secagg (active server)");
  EXPECT_EQ(text_of_yaml("{name: light_secagg, mode: cost}"), "light_secagg (semi-honest server, modelled)");
  EXPECT_EQ(text_of_yaml("{name: secure_groups, groups: 5, sum: {name: secagg_plus, server: active}, rule: median}"),
            "secure_groups of secagg_plus (active server)");
}

}  // namespace
}  // namespace chorus::inline experiment

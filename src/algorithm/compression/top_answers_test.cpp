#include "algorithm/compression/top_answers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithm/compression/message_filters.h"
#include "core/config/config.h"

namespace chorus::inline compression {
namespace {

TEST(TopAnswers, KeepsTheTopProbabilitiesAndSpreadsTheRest) {
  const TopAnswers filter({.classes = 4, .keep = 2});
  const std::vector<float> logits{0, 3, 1, 2, 5, 5, 5, 4};
  Filter::Bytes bytes;
  Numbers left = filter.encode(logits, bytes, {});
  EXPECT_EQ(bytes.size(), 4U);
  EXPECT_EQ(left.size(), 6U);
  EXPECT_EQ(filter.left(bytes, 8), 6U);
  const Numbers back = filter.decode(bytes, left, 8);
  const float rest = std::log((1 + std::exp(1.F)) / 2), other = std::log((std::exp(5.F) + std::exp(4.F)) / 2);
  const std::vector<float> expected{rest, 3, rest, 2, 5, 5, other, other};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(back[i], expected[i], 1e-5) << i;
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    before += std::exp(static_cast<double>(logits[i]));
    after += std::exp(static_cast<double>(back[i]));
  }
  EXPECT_NEAR(before, after, 1e-4);
}

TEST(TopAnswers, RefusesInvalidPredictions) {
  const TopAnswers filter({.classes = 3, .keep = 1});
  Filter::Bytes bytes;
  EXPECT_THROW(filter.encode(std::vector<float>(4), bytes, {}), DataError);
  EXPECT_THROW(filter.decode(Filter::Bytes(1), Numbers(3), 3), DataError);
  EXPECT_THROW(filter.decode(Filter::Bytes(2), Numbers(2), 3), DataError);
  EXPECT_THROW(filter.decode(Filter::Bytes(1, std::byte{7}), Numbers(2), 3), DataError);
  const TopAnswers wide({.classes = 300, .keep = 1});
  std::vector<float> logits(300, 0);
  logits[299] = 9;
  const Numbers left = wide.encode(logits, bytes, {});
  EXPECT_EQ(bytes.size(), 2U);
  EXPECT_EQ(wide.decode(bytes, left, 300)[299], 9);
}

TEST(TopAnswers, LeavesTensorsOtherThanPredictionsAlone) {
  Choice<Filters> choice("top_answers");
  ConfigDocument::parse("{classes: 4, keep: 1}", "test").fill([&](ConfigVisitor& visitor) {
    choice.describe(visitor);
  });
  for (const bool alone : {true, false}) {
    MessageFiltersInput input;
    input.filters = {choice};
    if (!alone) input.filters.push_back(Choice<Filters>("fp16"));
    const MessageFilters filters(input);
    Message message;
    std::map<std::string, at::Tensor> sent;
    // Each has a multiple of 4 elements.
    for (const char* name : {"predictions", "answers", "ensemble", "slopes", "update", "model"}) {
      sent[name] = message.tensors[name] = at::arange(2048, at::kFloat).remainder(7);
    }
    filters.pack(message, {"train"});
    for (const char* name : {"slopes", "update", "model"}) EXPECT_EQ(message.has_tensor(name), alone) << name;
    filters.unpack(message, {"train"}, {.most = 4096});
    for (const auto& [name, tensor] : sent) {
      const bool predictions = MessageFilters::is_predictions(name);
      EXPECT_EQ(at::equal(message.tensor(name), tensor), !predictions) << name;
    }
  }
}

}  // namespace
}  // namespace chorus::inline compression

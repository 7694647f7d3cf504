#include "core/base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support.h"

namespace chorus::inline base {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Failure{Failure::Kind::kRefused, "an odd number has no half"};
  return value / 2;
}

TEST(Result, HasAValueOrAReason) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(good.value(), 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.failure().kind, Failure::Kind::kRefused);
  EXPECT_EQ(bad.failure().message, "an odd number has no half");
}

TEST(Result, AtTheTopAFailureIsAWorldError) {
  EXPECT_EQ(half(2).value_or_throw(), 1);
  EXPECT_EQ(message_of<WorldError>([] { (void)half(3).value_or_throw(); }), "an odd number has no half");
}

TEST(Result, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Errors, HaveTheDocumentedExitCodes) {
  EXPECT_EQ(static_cast<int>(ConfigError("").code()), 2);
  EXPECT_EQ(static_cast<int>(DataError("").code()), 3);
  EXPECT_EQ(static_cast<int>(WorldError("").code()), 4);
  EXPECT_EQ(static_cast<int>(InternalError("").code()), 70);
  EXPECT_EQ(static_cast<int>(Interrupted().code()), 130);
}

TEST(Errors, ABugNamesItsSourceLocation) {
  const std::string message = message_of<InternalError>([] { check(false, "it cannot be"); });
  EXPECT_NE(message.find("it cannot be"), std::string::npos);
  EXPECT_NE(message.find("result_test.cpp"), std::string::npos) << message;
  EXPECT_EQ(message_of<InternalError>([] { check(true, "fine"); }), kNothingThrown);
}

}  // namespace
}  // namespace chorus::inline base

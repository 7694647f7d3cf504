#include "core/ports/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "core/base/error.h"
#include "core/ports/federation.h"
#include "core/ports/gate.h"
#include "core/ports/variants.h"
#include "tests/support.h"

namespace chorus::inline ports {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Message, GettersNameTheFieldThatIsMissing) {
  Message message;
  message.numbers["examples"] = 7;
  message.texts["who"] = "ward 7";
  EXPECT_EQ(message.number("examples"), 7);
  EXPECT_EQ(message.number("steps", 3), 3);
  EXPECT_EQ(message.text("who"), "ward 7");
  EXPECT_THAT(message_of<DataError>([&] { (void)message.number("steps"); }), HasSubstr("no number called \"steps\""));
  EXPECT_THAT(message_of<DataError>([&] { (void)message.text("examples"); }), HasSubstr("no text called \"examples\""));
  EXPECT_THAT(message_of<DataError>([&] { (void)message.tensor("x"); }), HasSubstr("no tensor called \"x\""));
  EXPECT_FALSE(message.has_tensor("x"));
}

TEST(Message, AVectorHasItsTypeSizeAndOneDimension) {
  Message message;
  message.tensors["good"] = torch::ones({4}, at::kFloat);
  message.tensors["long"] = torch::ones({5}, at::kFloat);
  message.tensors["double"] = torch::ones({4}, at::kDouble);
  message.tensors["square"] = torch::ones({2, 2}, at::kFloat);
  message.tensors["scalar"] = torch::scalar_tensor(1, at::kFloat);
  EXPECT_EQ(message.vector("good", 4).numel(), 4);
  for (const char* name : {"long", "double", "square", "scalar"}) {
    EXPECT_THAT(message_of<DataError>([&] { (void)message.vector(name, 4); }),
                AllOf(HasSubstr(name), HasSubstr("4 float32")));
  }
  EXPECT_EQ(message.tensor("square").dim(), 2) << "any shape, where none is asked for";
}

TEST(Message, BytesAreNamesAndValues) {
  Message message;
  EXPECT_EQ(message.bytes(), 0U);
  message.tensors["w"] = torch::zeros({10}, at::kHalf);
  EXPECT_EQ(message.bytes(), 21U);
  message.numbers["loss"] = 1;
  EXPECT_EQ(message.bytes(), 21U + 12);
  message.texts["name"] = "ab";
  EXPECT_EQ(message.bytes(), 21U + 12 + 6);
}

TEST(Request, HasAnEmptyOwnMessageForWhoeverGotNone) {
  Request request;
  EXPECT_TRUE(request.own_of(0).numbers.empty());
  request.own = {{.numbers = {{"x", 1}}}};
  EXPECT_EQ(request.own_of(0).number("x"), 1);
  EXPECT_TRUE(request.own_of(1).numbers.empty());
}

TEST(Reply, IsAcceptedOnlyByWhoeverCanKeepIt) {
  Reply reply;
  reply.accept();  // nobody listens
  int kept = 0;
  reply.on_accept = [&] { ++kept; };
  reply.accept();
  EXPECT_EQ(kept, 1);
  EXPECT_TRUE(reply.ok());
  reply.failure = "late";
  EXPECT_FALSE(reply.ok());
}

TEST(Replies, AreReadOnceInOrderOfArrival) {
  int next = 3;
  Replies replies([&]() -> std::optional<Reply> {
    if (next == 0) return std::nullopt;
    return Reply{.client = static_cast<ClientId>(next--)};
  });
  std::vector<ClientId> order;
  for (Reply& reply : replies) order.push_back(reply.client);
  EXPECT_THAT(order, ElementsAre(3, 2, 1));
  EXPECT_TRUE(replies.begin() == replies.end());
}

/// Remembers which sessions were used and ended.
class SessionLog : public Federation {
 public:
  const Roster& roster() const override { return roster_; }
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId>, Request request) override {
    used.push_back(request.session);
    return Replies([] { return std::nullopt; });
  }
  void end_session(std::uint64_t session) override { ended.push_back(session); }

  std::vector<std::uint64_t> used, ended;

 private:
  Roster roster_;
};

TEST(Session, StampsItsAsksAndEndsWithTheObject) {
  SessionLog log;
  std::uint64_t first = 0, second = 0;
  {
    Session one(log), two(log);
    first = one.id();
    second = two.id();
    (void)one.ask({}, {.procedure = "train"});
    (void)two.ask({}, {.procedure = "train", .session = 99});
    EXPECT_TRUE(log.ended.empty());
  }
  EXPECT_NE(first, 0U) << "0 means no session";
  EXPECT_NE(first, second);
  EXPECT_THAT(log.used, ElementsAre(first, second));
  EXPECT_THAT(log.ended, ElementsAre(second, first));
}

TEST(Roster, IsSortedAndKnowsWhoIsMissing) {
  const Roster roster(std::vector<RosterEntry>{
      {.id = 7, .examples = 30}, {.id = 2, .name = "ward 7"}, {.id = 4, .examples = 5, .alive = false}});
  ASSERT_EQ(roster.size(), 3U);
  EXPECT_EQ(roster.members()[0].id, 2U);
  EXPECT_EQ(roster.members()[2].id, 7U);
  EXPECT_EQ(roster.find(2)->name, "ward 7");
  for (const ClientId absent : {0U, 3U, 8U, 1000U}) EXPECT_EQ(roster.find(absent), nullptr) << absent;
  // 1 if a client does not say, 0 if it has left or never existed.
  EXPECT_THAT(roster.sizes(), ElementsAre(0, 0, 1, 0, 0, 0, 0, 30));
  EXPECT_EQ(roster.size_of(7), 30);
  EXPECT_EQ(roster.size_of(8), 0);
  EXPECT_EQ(roster.trainable(), 2U);
}

TEST(Roster, RefusesWhatCannotBe) {
  const auto with = [](std::vector<RosterEntry> members) { return [members] { (void)Roster(members); }; };
  EXPECT_THROW(with({{.id = 1}, {.id = 1}})(), InternalError);
  for (const double examples : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(with({{.id = 1, .examples = examples}})(), InternalError) << examples;
  }
  EXPECT_EQ(Roster().size(), 0U);
  EXPECT_TRUE(Roster().sizes().empty());
}

TEST(Roster, OfSizesNumbersClientsFromZero) {
  const Roster roster = Roster::of_sizes(std::vector<double>{3, 0, 5});
  EXPECT_EQ(roster.size(), 3U);
  EXPECT_EQ(roster.find(1)->examples, 0);
  EXPECT_EQ(roster.trainable(), 2U);
}

/// Depth 1 is elements 2 and 3 of four; width does not matter.
class TopHalf : public Variants {
 public:
  Variant whole() const override { return {2, 8}; }
  int unit() const override { return 4; }
  at::Tensor places(const Variant& variant) const override {
    ++asked;
    return variant.depth == 1 ? torch::tensor({2, 3}, at::kLong) : torch::arange(4, at::kLong);
  }
  mutable int asked = 0;
};

TEST(Variants, APartIsTakenOutAndPutBack) {
  const TopHalf variants;
  const at::Tensor whole = torch::arange(4, at::kFloat);
  const at::Tensor part = variants.take({1, 8}, whole);
  EXPECT_TRUE(torch::equal(part, torch::tensor({2, 3}, at::kFloat)));
  part.fill_(9);
  EXPECT_TRUE(torch::equal(whole, torch::arange(4, at::kFloat))) << "a part is a copy";
  variants.put({1, 8}, part, whole);
  EXPECT_TRUE(torch::equal(whole, torch::tensor({0, 1, 9, 9}, at::kFloat)));
}

TEST(Variants, TheWholeIsItselfUnderEveryName) {
  const TopHalf variants;
  const at::Tensor whole = torch::arange(4, at::kFloat);
  for (const Variant all : {Variant{}, Variant{2, 8}, Variant{2, -1}, Variant{-1, 8}}) {
    EXPECT_TRUE(variants.is_whole(all));
    EXPECT_EQ(variants.take(all, whole).data_ptr(), whole.data_ptr());
  }
  EXPECT_EQ(variants.asked, 0);
  for (const Variant less : {Variant{1, 8}, Variant{2, 4}, Variant{1, -1}}) EXPECT_FALSE(variants.is_whole(less));
  variants.put({}, torch::full({4}, 5, at::kFloat), whole);
  EXPECT_TRUE(torch::equal(whole, torch::full({4}, 5, at::kFloat)));
}

TEST(Variants, TravelAsNumbers) {
  for (const Variant variant : {Variant{}, Variant{0, 8}, Variant{3, -1}, Variant{12, 64}}) {
    Message body;
    write_variant(variant, body);
    EXPECT_EQ(read_variant(body), variant);
    EXPECT_EQ(body.numbers.size(), static_cast<std::size_t>((variant.depth >= 0) + (variant.width >= 0)));
  }
  for (const double bad : {0.5, -2.0, 1e9, std::nan(""), HUGE_VAL}) {
    Message body;
    body.numbers["depth"] = bad;
    EXPECT_THAT(message_of<DataError>([&] { (void)read_variant(body); }), HasSubstr("depth")) << bad;
  }
}

TEST(GateTotals, AddUpToOneRatioAndOneError) {
  GateTotals all;
  EXPECT_EQ(all.ratio(), 1);
  EXPECT_EQ(all.error(), 0);
  all += {.raw = 400, .packed = 100, .norm2 = 16, .error2 = 1};
  all += {.raw = 400, .packed = 300, .norm2 = 9, .error2 = 0};
  EXPECT_DOUBLE_EQ(all.ratio(), 2);
  EXPECT_DOUBLE_EQ(all.error(), 0.2);  // sqrt(1 / 25)
}

}  // namespace
}  // namespace chorus::inline ports

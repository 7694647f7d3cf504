#include "core/config/config_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/config/config_help.h"
#include "core/config/config_visitor.h"
#include "tests/support.h"

namespace chorus::inline config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A tree in one line: maps {k:v}, lists [v], quoted scalars in quotes, null as ~.
std::string tree_text(const ConfigNodePtr& node) {
  std::string text;
  switch (node->kind) {
    case ConfigNode::Kind::kNull:
      return "~";
    case ConfigNode::Kind::kScalar:
      return node->quoted ? "'" + node->text + "'" : node->text;
    case ConfigNode::Kind::kList:
      for (const auto& item : node->items) text += (text.empty() ? "" : " ") + tree_text(item);
      return "[" + text + "]";
    case ConfigNode::Kind::kMap:
      for (const auto& entry : node->entries)
        text += (text.empty() ? "" : " ") + entry.key + ":" + tree_text(entry.value);
      return "{" + text + "}";
  }
  return "?";
}

ConfigNodePtr tree_of(const std::string& yaml) {
  std::vector<ConfigMistake> mistakes;
  ConfigNodePtr tree = parse_yaml(yaml, "f.yaml", false, mistakes);
  EXPECT_THAT(mistakes, IsEmpty());
  return tree;
}

TEST(ConfigTree, RemembersWhereEverythingStands) {
  const ConfigNodePtr tree = tree_of("a: 1\nb:\n  c: [x, 'null', null, \"\"]\n  d: ~\n");
  EXPECT_EQ(tree_text(tree), "{a:1 b:{c:[x 'null' ~ ''] d:~}}");
  EXPECT_EQ(tree->find("a")->where, "f.yaml:1");
  EXPECT_EQ(tree->find("b")->value->find("d")->where, "f.yaml:4");
  EXPECT_EQ(tree->find("b")->value->find("c")->value->items[0]->where, "f.yaml:3");
  EXPECT_EQ(tree->find("c"), nullptr);
  EXPECT_EQ(tree_text(tree_of("")), "~");
  EXPECT_EQ(tree_text(tree_of("x: &l [1, 2]\ny: *l\n")), "{x:[1 2] y:[1 2]}");
}

TEST(ConfigTree, AKeyThatStandsTwiceIsAMistake) {
  std::vector<ConfigMistake> mistakes;
  (void)parse_yaml("a: 1\nb: 2\na: 3\n", "f.yaml", false, mistakes);
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].where, "f.yaml:3");
  EXPECT_THAT(mistakes[0].key + mistakes[0].message, HasSubstr("a"));
}

TEST(ConfigTree, OverridesReplaceAppendAndMake) {
  struct Case {
    const char *yaml, *defaults, *assignment, *expected;
  };
  const Case cases[] = {{"a: 1", "{}", "a=2", "{a:2}"},
                        {"a: 1", "{}", "b=2", "{a:1 b:2}"},
                        {"", "{}", "a.b.c=x", "{a:{b:{c:x}}}"},
                        {"a: {b: 1, c: 2}", "{}", "a.b=5", "{a:{c:2 b:5}}"},
                        {"a: [1, 2]", "{}", "a.0=9", "{a:[9 2]}"},
                        {"a: [1, 2]", "{}", "a[1]=9", "{a:[1 9]}"},
                        {"a: [1]", "{}", "a.1=2", "{a:[1 2]}"},
                        {"", "{a: [7, 8]}", "a.1=9", "{a:[7 9]}"},
                        {"a: 1", "{}", "a=[x, {y: z}]", "{a:[x {y:z}]}"},
                        {"a: 1", "{}", "a=", "{a:~}"},
                        {"a: 1", "{}", "a=b=c", "{a:b=c}"},
                        {"a: fedavg", "{a: {name: fedavg}}", "a.mu=1", "{a:{name:fedavg mu:1}}"}};
  for (const Case& one : cases) {
    std::vector<ConfigMistake> mistakes;
    const ConfigNodePtr tree = with_override(tree_of(one.yaml), tree_of(one.defaults), one.assignment, mistakes);
    EXPECT_THAT(mistakes, IsEmpty()) << one.assignment;
    EXPECT_EQ(tree_text(tree), one.expected) << one.assignment;
  }
}

TEST(ConfigTree, OverridesThatCannotBeChangeNothing) {
  for (const char* assignment : {"a", "=1", "a.5=1", "a.x=1", "a.-1=1", "b..c=1", ".b=1", "b.=1", "b=[1", "b={x"}) {
    std::vector<ConfigMistake> mistakes;
    const ConfigNodePtr before = tree_of("a: [1, 2]");
    const ConfigNodePtr tree = with_override(before, tree_of("{}"), assignment, mistakes);
    EXPECT_EQ(mistakes.size(), 1U) << assignment;
    EXPECT_EQ(tree_text(tree), "{a:[1 2]}") << assignment;
    if (!mistakes.empty()) {
      EXPECT_THAT(mistakes[0].where, HasSubstr("override")) << assignment;
    }
  }
}

TEST(ConfigField, SaysWhatIsAllowed) {
  bool flag = false;
  std::int64_t count = 1;
  double rate = 1;
  std::string text, file;
  std::optional<double> limit;
  std::vector<std::string> words;
  std::map<std::string, double> scores;
  ConfigVisitor visitor;
  EXPECT_EQ(allowed_text(visitor.field("flag", flag, "")), "true or false");
  EXPECT_EQ(allowed_text(visitor.field("count", count, "").at_least(1).at_most(9)),
            "a whole number, at least 1, at most 9");
  EXPECT_EQ(allowed_text(visitor.field("rate", rate, "").above(0).below(0.5)), "a number, above 0, below 0.5");
  EXPECT_EQ(allowed_text(visitor.field("text", text, "").one_of({"a", "b"})), "one of a, b");
  EXPECT_EQ(allowed_text(visitor.field("file", file, "").existing()), "the path of an existing file or folder");
  EXPECT_EQ(allowed_text(visitor.field("limit", limit, "").at_least(0)), "a number, at least 0, or null");
  EXPECT_EQ(allowed_text(visitor.field("words", words, "").not_empty()), "a list, not empty, each text");
  EXPECT_EQ(allowed_text(visitor.field("scores", scores, "")), "a map of names, each to a number");
  EXPECT_EQ(visitor.find("rate")->name, "rate");
  EXPECT_EQ(visitor.find("rates"), nullptr);
}

TEST(ConfigField, ReachesTheMember) {
  std::int64_t count = 1;
  std::optional<double> limit = 2;
  std::vector<std::string> words{"a"};
  std::map<std::string, double> scores{{"x", 1}};
  ConfigVisitor visitor;
  visitor.field("count", count, "");
  visitor.field("limit", limit, "");
  visitor.field("words", words, "");
  visitor.field("scores", scores, "");
  visitor.find("count")->set({{"", std::int64_t{7}}});
  EXPECT_EQ(count, 7);
  EXPECT_EQ(std::get<std::int64_t>(visitor.find("count")->get().at(0).second), 7);
  EXPECT_EQ(visitor.find("limit")->get().size(), 1U);
  visitor.find("limit")->set({});
  EXPECT_FALSE(limit.has_value());
  EXPECT_THAT(visitor.find("limit")->get(), IsEmpty());
  visitor.find("words")->set({{"", std::string("b")}, {"", std::string("c")}});
  EXPECT_THAT(words, ElementsAre("b", "c"));
  visitor.find("scores")->set({{"y", 2.5}});
  EXPECT_EQ(scores, (std::map<std::string, double>{{"y", 2.5}}));
}

TEST(ConfigField, BoundsAreForNumbersAndNamesForText) {
  std::string text;
  bool flag = false;
  std::int64_t count = 1;
  ConfigVisitor visitor;
  EXPECT_THROW(visitor.field("text", text, "").at_least(1), InternalError);
  EXPECT_THROW(visitor.field("flag", flag, "").below(1), InternalError);
  EXPECT_THROW(visitor.field("count", count, "").one_of({"a"}), InternalError);
  EXPECT_THROW(visitor.find("count")->path(), InternalError);
  EXPECT_THROW(visitor.field("count", count, ""), InternalError) << "described twice";
}

struct Numbers {
  double value = 0;
  std::int64_t whole = 0;
  void describe(ConfigVisitor& v) {
    v.field("value", value, "a number").at_least(-1e300);
    v.field("whole", whole, "a whole number");
  }
};

TEST(Config, NumbersComeBackBitForBit) {
  for (const double value : {0.1, 1.0 / 3, 1e-310, 5e-324, 1.7976931348623157e308, -0.0, 123456789012345680.0}) {
    Numbers numbers;
    numbers.value = value;
    numbers.whole = static_cast<std::int64_t>(0x7fffffffffffffff);
    const Numbers back = ConfigDocument::parse(config_to_yaml(numbers), "f").load<Numbers>();
    EXPECT_EQ(back.value, value);
    EXPECT_EQ(std::signbit(back.value), std::signbit(value));
    EXPECT_EQ(back.whole, numbers.whole);
  }
}

TEST(Config, WhatIsNoNumberIsRefused) {
  const auto refused = [](const std::string& text) {
    return message_of<ConfigError>([&] { (void)ConfigDocument::parse(text, "f.yaml").load<Numbers>(); });
  };
  for (const char* text : {"whole: 1.5", "whole: x", "whole: 1e30", "whole: 9223372036854775808", "whole: []",
                           "whole: ~", "value: true", "value: 1,5", "value: .nan", "value: 1e999", "value: 0x"}) {
    EXPECT_THAT(refused(text), HasSubstr("f.yaml:1")) << text;
  }
  EXPECT_EQ(ConfigDocument::parse("whole: 1e4", "f").load<Numbers>().whole, 10000);
}

TEST(ConfigHelp, ProgramsGetEveryBound) {
  Numbers numbers;
  const auto help = nlohmann::json::parse(config_help_json([&](ConfigVisitor& v) { numbers.describe(v); }));
  ASSERT_EQ(help.size(), 2U);
  EXPECT_EQ(help[0].at("key"), "value");
  EXPECT_EQ(help[0].at("type"), "double");
  EXPECT_EQ(help[0].at("shape"), "one");
  EXPECT_EQ(help[0].at("minimum"), -1e300);
  EXPECT_FALSE(help[1].contains("minimum"));
  EXPECT_THAT(config_help_text([&](ConfigVisitor& v) { numbers.describe(v); }, 80),
              AllOf(HasSubstr("whole"), HasSubstr("a whole number (a whole number)")));
  EXPECT_EQ(config_help_text([](ConfigVisitor&) {}, 80), "");
}

}  // namespace
}  // namespace chorus::inline config

#include "core/config/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/config/config_help.h"
#include "core/config/registry.h"
#include "core/files/files.h"

namespace chorus::inline config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A registry for this test, with three names.
class Shape {
 public:
  static constexpr std::string_view kKind = "test-shape";
  virtual ~Shape() = default;
  virtual double area(double scale) const = 0;
};
using Shapes = Registry<Shape, double>;

struct CircleConfig {
  double radius = 1;
  void describe(ConfigVisitor& v) { v.field("radius", radius, "in metres").above(0); }
};
class Circle final : public Shape {
 public:
  explicit Circle(double radius) : radius_(radius) {}
  double area(double scale) const override { return scale * radius_ * radius_; }

 private:
  double radius_;
};
const Registration<Shapes, CircleConfig> kCircle{
    "circle", "round", [](const CircleConfig& config, double) { return std::make_unique<Circle>(config.radius); }};
const Registration<Shapes> kPoint{"point", "nothing at all", [](double) { return std::make_unique<Circle>(0); }};
const NameRegistration kCube{{"test-shape", "cube", "not flat", "the third dimension was missing"}};

enum class Colour { kRed, kGreen };

struct Inner {
  std::int64_t depth = 3;
  std::string label = "none";
  void describe(ConfigVisitor& v) {
    v.field("depth", depth, "levels").at_least(1).at_most(12);
    v.field("label", label, "a name").not_empty();
  }
};

struct Outer {
  bool flag = false;
  std::int64_t count = 10;
  double rate = 1e-3;
  std::string text = "plain";
  Colour colour = Colour::kRed;
  std::vector<Colour> colours = {Colour::kGreen};
  std::optional<double> limit;
  std::optional<std::string> note = "x";
  std::vector<std::int64_t> sizes = {1, 2};
  std::vector<double> weights;
  std::vector<std::string> words;
  std::map<std::string, double> scores = {{"a", 0.1}};
  std::map<std::string, std::string> tags;
  Inner inner;
  std::optional<Inner> maybe;
  std::vector<Inner> layers = {Inner{}};
  Choice<Shapes> shape{"circle"};
  std::vector<Choice<Shapes>> shapes;

  void describe(ConfigVisitor& v) {
    v.field("flag", flag, "a switch");
    v.field("count", count, "how many").at_least(1);
    v.field("rate", rate, "per step").above(0).below(1);
    v.field("text", text, "anything");
    v.field("colour", colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}}, "its colour");
    v.field("colours", colours, {{"red", Colour::kRed}, {"green", Colour::kGreen}}, "more colours");
    v.field("limit", limit, "at most that");
    v.field("note", note, "a remark");
    v.field("sizes", sizes, "sizes").at_least(0);
    v.field("weights", weights, "weights");
    v.field("words", words, "words");
    v.field("scores", scores, "scores");
    v.field("tags", tags, "tags");
    v.field("inner", inner, "inside");
    v.field("maybe", maybe, "inside, perhaps");
    v.field("layers", layers, "insides");
    v.field("shape", shape, "a form");
    v.field("shapes", shapes, "forms");
    v.check([this] { return flag && count > 100 ? "flag and a count above 100 exclude each other" : ""; });
  }
};

Outer load(const std::string& text, std::vector<std::string> overrides = {}) {
  return ConfigDocument::parse(text, "f.yaml", std::move(overrides)).load<Outer>();
}

std::string mistake(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    load(text, std::move(overrides));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no mistake";
}

TEST(Config, NothingGivenKeepsTheDefaults) {
  for (const char* text : {"", "\n", "# only a comment\n", "{}", "---\n", "inner:\n"}) {
    const Outer defaults;
    EXPECT_EQ(config_to_yaml(load(text)), config_to_yaml(defaults)) << text;
  }
}

TEST(Config, ReadsEveryType) {
  const Outer c = load(R"(
kind: ignored
flag: yes
count: 1e2
rate: 2.5e-5
text: "null"
colour: green
colours: [red, green]
limit: .inf
note: ~
sizes: [7]
weights: [1, -2.5]
words: [a, "", "ü"]
scores: {x: 1.5}
tags: {k: v}
inner: {depth: 12, label: l}
maybe: {depth: 1}
layers:
  - depth: 2
  - {label: second}
shape: {name: circle, radius: 3}
shapes: [point, circle]
)");
  EXPECT_TRUE(c.flag);
  EXPECT_EQ(c.count, 100);
  EXPECT_EQ(c.rate, 2.5e-5);
  EXPECT_EQ(c.text, "null");
  EXPECT_EQ(c.colour, Colour::kGreen);
  EXPECT_THAT(c.colours, ElementsAre(Colour::kRed, Colour::kGreen));
  EXPECT_EQ(c.limit, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(c.note.has_value());
  EXPECT_THAT(c.sizes, ElementsAre(7));
  EXPECT_THAT(c.weights, ElementsAre(1, -2.5));
  EXPECT_THAT(c.words, ElementsAre("a", "", "ü"));
  EXPECT_EQ(c.scores, (std::map<std::string, double>{{"x", 1.5}}));
  EXPECT_EQ(c.tags, (std::map<std::string, std::string>{{"k", "v"}}));
  EXPECT_EQ(c.inner.depth, 12);
  ASSERT_TRUE(c.maybe.has_value());
  EXPECT_EQ(c.maybe->depth, 1);
  ASSERT_EQ(c.layers.size(), 2U);
  EXPECT_EQ(c.layers[1].depth, 3);
  EXPECT_EQ(c.layers[1].label, "second");
  EXPECT_EQ(c.shape.make(2.0)->area(2.0), 18);
  ASSERT_EQ(c.shapes.size(), 2U);
  EXPECT_EQ(c.shapes[0].name(), "point");
}

TEST(Config, WhatIsWrittenLoadsBackToTheSame) {
  Outer c;
  c.rate = 0.1 + 0.2;
  c.count = std::numeric_limits<std::int64_t>::max();
  c.text = "a: \"b\" #c\n\ttab \\ ü \x01 - [x]";
  c.limit = -std::numeric_limits<double>::infinity();
  c.note = "null";
  c.weights = {5e-324, 1.7976931348623157e308, -0.0, 1e22, 3};
  c.words = {"", "~", "true", "1.5", "---", "- x", "? y", "&a", "*b", " lead", "trail ", "a:b", "ends:", "'q'", "%x"};
  c.tags = {{"key with blank", "v"}, {"~", "~"}, {"1", "2"}};
  c.maybe = Inner{7, "m"};
  c.layers.clear();
  c.shape.select("point");
  c.shapes.resize(1);
  c.shapes[0].select("circle");
  const std::string yaml = config_to_yaml(c, "test");
  const Outer back = load(yaml);
  EXPECT_EQ(config_to_yaml(back, "test"), yaml);
  EXPECT_EQ(back.rate, c.rate);
  EXPECT_EQ(back.count, c.count);
  EXPECT_EQ(back.text, c.text);
  EXPECT_EQ(back.limit, c.limit);
  EXPECT_EQ(back.note, c.note);
  EXPECT_EQ(back.weights, c.weights);
  EXPECT_TRUE(std::signbit(back.weights[2]));
  EXPECT_EQ(back.words, c.words);
  EXPECT_EQ(back.tags, c.tags);
  EXPECT_EQ(back.maybe->depth, 7);
  EXPECT_TRUE(back.layers.empty());
  EXPECT_EQ(back.shape.name(), "point");
  EXPECT_EQ(ConfigDocument::parse(yaml, "f").kind("other"), "test");
}

TEST(Config, ReportsAllMistakesWithPlaceValueAndNearestName) {
  const std::string text = mistake(R"(flag: maybe
cuont: 5
rate: 2
colour: gren
inner:
  depth: 0
  label: ""
sizes: [1, x]
shape: cirle
layers:
  - dpeth: 2
scores: 5
count: 9223372036854775808
)");
  EXPECT_THAT(text, HasSubstr("f.yaml has 11 mistakes:"));
  EXPECT_THAT(text, HasSubstr("f.yaml:1: flag: 'maybe' is not true or false"));
  EXPECT_THAT(text, HasSubstr("f.yaml:2: cuont: unknown key; did you mean 'count'?"));
  EXPECT_THAT(text, HasSubstr("f.yaml:3: rate: '2' is out of range; allowed: a number, above 0, below 1"));
  EXPECT_THAT(text, HasSubstr("f.yaml:4: colour: 'gren' is not one of red, green; did you mean 'green'?"));
  EXPECT_THAT(text, HasSubstr("f.yaml:6: inner.depth: '0' is out of range; allowed: a whole number, at least 1, at"));
  EXPECT_THAT(text, HasSubstr("f.yaml:7: inner.label: '' is empty"));
  EXPECT_THAT(text, HasSubstr("f.yaml:8: sizes.1: 'x' is not a whole number"));
  EXPECT_THAT(text, HasSubstr("f.yaml:9: shape: unknown test-shape 'cirle'; did you mean 'circle'? (known: circle"));
  EXPECT_THAT(text, HasSubstr("f.yaml:11: layers.0.dpeth: unknown key; did you mean 'depth'?"));
  EXPECT_THAT(text, HasSubstr("f.yaml:12: scores: '5' is not a map"));
  EXPECT_THAT(text, HasSubstr("f.yaml:13: count: '9223372036854775808' is not a whole number that fits 64 bits"));
}

TEST(Config, SaysWhatIsWrongWithOneThing) {
  EXPECT_THAT(mistake("zzz: 1"), AllOf(HasSubstr("f.yaml:1: zzz: unknown key; known keys: flag, count")));
  EXPECT_EQ(mistake("count: 1\ncount: 2"),
            "f.yaml:2: count: is given twice in this section, first at f.yaml:1; keep one");
  EXPECT_THAT(mistake("rate: nan"), HasSubstr("is not a number"));
  EXPECT_THAT(mistake("rate: .nan"), HasSubstr("is not a number"));
  EXPECT_THAT(mistake("rate: 0x10"), HasSubstr("is not a number"));
  EXPECT_THAT(mistake("rate: --1"), HasSubstr("is not a number"));
  EXPECT_THAT(mistake("limit: 1e999"), HasSubstr("is not a number"));
  EXPECT_THAT(mistake("count: 1.5"), HasSubstr("is not a whole number"));
  EXPECT_THAT(mistake("count:"), HasSubstr("has no value"));
  EXPECT_THAT(mistake("count: [1]"), HasSubstr("a list is given where one value is expected"));
  EXPECT_THAT(mistake("inner: 5"), HasSubstr("'5' is given where a section"));
  EXPECT_THAT(mistake("layers: {depth: 1}"), HasSubstr("a section is not a list"));
  EXPECT_THAT(mistake("sizes: 5"), HasSubstr("'5' is not a list"));
  EXPECT_THAT(mistake("shape: {name: circle, radius: 0}"), HasSubstr("shape.radius: '0' is out of range"));
  EXPECT_THAT(mistake("shape: {name: point, radius: 1}"), HasSubstr("shape.radius: unknown key; this section has no"));
  EXPECT_THAT(mistake("shape: {name: point, size:2}"),
              HasSubstr("shape.size:2: unknown key; write a space after the colon: 'size: 2'"));
  EXPECT_THAT(mistake("shape: cube"), HasSubstr("not in this build of Chorus: the third dimension was missing"));
  EXPECT_THAT(mistake("shapes: [{radius: 1}]"), HasSubstr("shapes.0: needs the name of a test-shape: one of circle"));
  EXPECT_THAT(mistake("flag: true\ncount: 101"), HasSubstr("flag and a count above 100 exclude each other"));
  EXPECT_THAT(mistake("- a\n- b"), HasSubstr("a list is given where a section"));
  EXPECT_THAT(mistake("just words"), HasSubstr("'just words' is given where a section"));
  EXPECT_THAT(mistake("[a, b]: 1"), HasSubstr("a key must be a plain name"));
  EXPECT_THAT(mistake("count: 1\n---\ncount: 2"), HasSubstr("more than one YAML document"));
}

TEST(Config, RequiredFieldsAndPaths) {
  struct Job {
    std::string input;
    std::string output = "o";
    Inner inner;
    void describe(ConfigVisitor& v) {
      v.field("input", input, "the data").required().existing();
      v.field("output", output, "the result").path();
    }
  };
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      ConfigDocument::parse(text, "f.yaml").load<Job>();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of(""), HasSubstr("f.yaml: input: is required and missing; it takes the path of an existing file"));
  EXPECT_THAT(error_of("input: /no/such/place"), HasSubstr("'/no/such/place' does not exist"));
  EXPECT_THAT(error_of("{input: /, output: ''}"), HasSubstr("output: '' is empty"));
  EXPECT_EQ(error_of("input: /"), "");
  const Job elsewhere =
      ConfigDocument::parse("{input: /no/such/place, output: /etc/passwd}", "f.yaml").ignore_paths().load<Job>();
  EXPECT_EQ(elsewhere.input, "");
  EXPECT_EQ(elsewhere.output, "o");
}

TEST(Config, Overrides) {
  const Outer c = load(
      "count: 5\nshape: circle\nshapes: [circle, point]\ninner: {depth: 4}\n",
      {"count=7", "inner.label=new", "sizes=[4, 5]", "sizes.2=6", "layers[0].depth=9", "shape.radius=2",
       "shapes.0.radius=5", "shapes.2=point", "note=null", "maybe.depth=2", "scores.b=3", "rate=1e-4", "text=a=b"});
  EXPECT_EQ(c.count, 7);
  EXPECT_EQ(c.inner.label, "new");
  EXPECT_EQ(c.inner.depth, 4);
  EXPECT_THAT(c.sizes, ElementsAre(4, 5, 6));
  ASSERT_EQ(c.layers.size(), 1U);
  EXPECT_EQ(c.layers[0].depth, 9);
  EXPECT_EQ(c.layers[0].label, "none");
  EXPECT_EQ(c.shape.make(1)->area(1), 4);
  EXPECT_EQ(c.shapes[0].make(1)->area(1), 25);
  EXPECT_EQ(c.shapes.size(), 3U);
  EXPECT_FALSE(c.note.has_value());
  EXPECT_EQ(c.maybe->depth, 2);
  EXPECT_EQ(c.scores.at("b"), 3);
  EXPECT_EQ(c.text, "a=b");
}

TEST(Config, WrongOverrides) {
  EXPECT_EQ(mistake("", {"cuont=5"}), "override 'cuont=5': cuont: unknown key; did you mean 'count'?");
  EXPECT_THAT(mistake("", {"count=x"}), HasSubstr("override 'count=x': count: 'x' is not a whole number"));
  for (const std::string key : {"shape", "shapes.0"}) {
    EXPECT_THAT(mistake("shapes: [point]", {key + "={name:circle, radius: 2}"}),
                HasSubstr(key + ".name:circle: unknown key; write a space after the colon: 'name: circle'"));
  }
  EXPECT_THAT(mistake("", {"count"}), HasSubstr("override 'count': is not of the form key=value"));
  EXPECT_THAT(mistake("", {"=5"}), HasSubstr("key=value"));
  EXPECT_THAT(mistake("", {"inner..depth=5"}), HasSubstr("names joined by dots"));
  EXPECT_THAT(mistake("", {"sizes.7=5"}), HasSubstr("'7' is not an index of this list of 2; use 0 to 2"));
  EXPECT_THAT(mistake("", {"sizes.x=5"}), HasSubstr("sizes: a section is not a list"));
  EXPECT_THAT(mistake("sizes: [1]", {"sizes.x=5"}), HasSubstr("'x' is not an index of this list"));
  EXPECT_THAT(mistake("", {"sizes=[1"}), HasSubstr("the value after '=': is not valid YAML"));
  EXPECT_THAT(mistake("", {"count.deep=1"}), HasSubstr("a section is given where one value is expected"));
  EXPECT_THAT(mistake("", {"a=1", "b=2"}), HasSubstr("has 2 mistakes"));
}

TEST(Config, MalformedYamlHasLineAndColumn) {
  EXPECT_THAT(mistake("count: 1\ninner: {depth: 2\n"), AllOf(HasSubstr("f.yaml:3:"), HasSubstr("is not valid YAML")));
  EXPECT_THAT(mistake("a: b: c"), HasSubstr("f.yaml:1:5: is not valid YAML"));
  EXPECT_THAT(mistake("\tcount: 1"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(mistake("text: \"open"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(mistake("text: *nothing"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(mistake(std::string("a\0b", 3)), HasSubstr("is not a text file"));
}

TEST(Config, HostileYamlNeitherHangsNorCrashes) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* part : {"[", "{", "- ", "? ", "{a: ", "[[", "&a [", "!t [", "'", "\"", "|\n", "*", "a:\n "}) {
    std::string text;
    while (text.size() < 200000) text += part;
    EXPECT_NE(mistake(text), "no mistake") << part;
  }
  // Just below the nesting limit: rejected by the fields, not by the parser.
  EXPECT_THAT(mistake("text: " + std::string(60, '[') + std::string(60, ']')), HasSubstr("one value is expected"));
  EXPECT_THAT(mistake("text: " + std::string(70, '[') + std::string(70, ']')), HasSubstr("deeper than 64"));
  EXPECT_THAT(mistake("text: &a [*a]"), HasSubstr("an alias refers to a node that contains it"));
  EXPECT_THAT(mistake("inner: &a {depth: *a}"), HasSubstr("an alias refers to a node that contains it"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 50; ++i) {
    const std::string alias = fmt::format("*a{}", i - 1);
    bomb += fmt::format("a{}: &a{} [{}]\n", i, i, fmt::join(std::vector<std::string>(10, alias), ", "));
  }
  EXPECT_THAT(mistake(bomb + "sizes: *a49\n"), HasSubstr("has 60 mistakes"));
  std::string long_key(100000, 'k');
  EXPECT_LT(mistake(long_key.substr(0, 1000) + ": 1").size(), 1000U);
  EXPECT_THAT(mistake("text: \"\x1b[31m\"\ncount: \"\x1b[31m\""), Not(HasSubstr("\x1b")));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += fmt::format("k{}: 1\n", i);
  EXPECT_THAT(mistake(many), AllOf(HasSubstr("has 5000 mistakes"), HasSubstr("... and 4950 more")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Config, AliasesWork) {
  const Outer c = load("inner: &i {depth: 5}\nmaybe: *i\n");
  EXPECT_EQ(c.inner.depth, 5);
  EXPECT_EQ(c.maybe->depth, 5);
}

TEST(Config, HelpListsEveryField) {
  Outer c;
  const auto describe = [&](ConfigVisitor& visitor) { c.describe(visitor); };
  const std::string text = config_help_text(describe, 100);
  EXPECT_THAT(text, HasSubstr("inner.depth"));
  EXPECT_THAT(text, HasSubstr("layers.N.label"));
  EXPECT_THAT(text, HasSubstr("levels (a whole number, at least 1, at most 12)"));
  EXPECT_THAT(text, HasSubstr("0.001"));
  const std::string json = config_help_json(describe);
  EXPECT_THAT(json, HasSubstr(R"("key": "rate")"));
  EXPECT_THAT(json, HasSubstr(R"("above": 0.0)"));
  EXPECT_THAT(json, HasSubstr(R"("kind": "test-shape")"));
  EXPECT_EQ(config_help_text([](ConfigVisitor&) {}, 80), "");
}

TEST(Config, ADescriptionThatCannotWorkIsABug) {
  std::int64_t number = 0;
  std::string text;
  ConfigVisitor visitor;
  visitor.field("x", number, "");
  EXPECT_THROW(visitor.field("x", number, ""), InternalError);
  EXPECT_THROW(visitor.field("y", text, "").at_least(1), InternalError);
}

TEST(Registry, FindsListsAndRefuses) {
  EXPECT_THAT(Shapes::names(), ElementsAre("circle", "point"));  // sorted, available names only
  EXPECT_EQ(RegistryIndex::global().entries("test-shape").size(), 3U);
  EXPECT_EQ(Shapes::make("circle", 1.0)->area(5.0), 5.0);
  EXPECT_THROW(Shapes::make("cicle", 1.0), ConfigError);
  EXPECT_THROW(Shapes::make("cube", 1.0), ConfigError);
  ASSERT_EQ(RegistryIndex::global().find_anywhere("point").size(), 1U);
  EXPECT_EQ(RegistryIndex::global().find("none", "point"), nullptr);
  EXPECT_THAT(RegistryIndex::global().mistake("none", "x"), HasSubstr("has none"));
}

TEST(Registry, ANameRegisteredTwiceIsABug) {
  RegistryIndex index;
  index.add({"kind", "name", "summary", ""});
  index.add({"other", "name", "summary", ""});
  EXPECT_THROW(index.add({"kind", "name", "again", ""}), InternalError);
  EXPECT_THROW(index.add({"kind", "", "empty", ""}), InternalError);
}

TEST(Registry, ChoicesAreCopiedDeeply) {
  Choice<Shapes> one("circle");
  dynamic_cast<ConfigOf<CircleConfig>&>(one.config()).value.radius = 4;
  Choice<Shapes> two = one;
  dynamic_cast<ConfigOf<CircleConfig>&>(two.config()).value.radius = 5;
  EXPECT_EQ(one.make(1)->area(1), 16);
  EXPECT_EQ(two.make(1)->area(1), 25);
  EXPECT_THROW(two.select("nothing"), ConfigError);
}

}  // namespace
}  // namespace chorus::inline config

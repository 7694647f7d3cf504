#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/console/terminal.h"
#include "core/files/files.h"
#include "infrastructure/tracking/compare/comparison.h"
#include "infrastructure/tracking/compare/svg_plot.h"
#include "infrastructure/tracking/compare/terminal_plot.h"
#include "tests/support.h"

namespace chorus::inline compare {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Axis, IsLogarithmicForALargeRange) {
  const std::vector<Curve> curves{{"perplexity", {{0, 8191}, {5, 300}, {10, 45}}}};
  const auto [x, y] = make_axes(curves, 5, 6);
  EXPECT_FALSE(x.logarithmic);
  EXPECT_TRUE(y.logarithmic);
  EXPECT_NEAR(y.place(45), 0, 1e-12);
  EXPECT_NEAR(y.place(8191), 1, 1e-12);
  EXPECT_EQ(y.ticks, (std::vector<double>{50, 100, 200, 500, 1000, 2000, 5000}));
  EXPECT_EQ(y.label(5000), "5000");
  EXPECT_FALSE(make_axes(std::vector<Curve>{{"loss", {{0, 3}, {1, 0.2}}}}, 5, 6).second.logarithmic);
}

TEST(Axis, TicksAreRound) {
  const auto ticks_of = [](std::vector<double> values) {
    const Axis axis = make_axis(values, 5);
    std::vector<std::string> labels;
    for (const double tick : axis.ticks) labels.push_back(axis.label(tick));
    return labels;
  };
  EXPECT_EQ(ticks_of({0, 1}), (std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(ticks_of({1, 10}), (std::vector<std::string>{"2", "4", "6", "8", "10"}));
  EXPECT_EQ(ticks_of({0, 5e6}), (std::vector<std::string>{"0", "1M", "2M", "3M", "4M", "5M"}));
  EXPECT_EQ(ticks_of({-0.02, 0.02}), (std::vector<std::string>{"-0.02", "-0.01", "0.00", "0.01", "0.02"}));
  EXPECT_EQ(make_axes(std::vector<Curve>{{"two rounds", {{0, 0.1}, {2, 0.2}}}}, 8, 6).first.ticks,
            (std::vector<double>{0, 1, 2}));
  EXPECT_GE(ticks_of({0.5, 0.5}).size(), 2U);
  EXPECT_GE(ticks_of({0, 0}).size(), 2U);
  EXPECT_GE(ticks_of({}).size(), 2U);
  EXPECT_GE(ticks_of({-1e300, 1e300}).size(), 2U);
  EXPECT_GE(ticks_of({1e-300, 2e-300}).size(), 2U);
}

const std::vector<Curve> kCurves = {{"rising", {{1, 0.1}, {2, 0.5}, {3, 0.9}}}, {"falling", {{1, 0.9}, {3, 0.1}}}};

TEST(TerminalPlot, DrawsAPictureInAscii) {
  const PlotOptions options{.width = 44, .height = 13, .x_label = "round", .y_label = "accuracy", .unicode = false};
  EXPECT_EQ(terminal_plot(kCurves, options),
            "  accuracy\n"
            "     |ooo                               ***\n"
            " 0.8 +  ooooo                       *****\n"
            "     |       ooooo             *****\n"
            " 0.6 +            ooooo   *****\n"
            "     |                oo*oo\n"
            " 0.4 +            *****   ooooo\n"
            "     |       *****             ooooo\n"
            " 0.2 +  *****                       ooooo\n"
            "     |***                               ooo\n"
            "     ++-----------------+-----------------+\n"
            "      1                 2                 3\n"
            "                      round\n"
            "  * rising   o falling\n");
}

TEST(TerminalPlot, UsesBrailleAndMarkersWithUnicode) {
  const std::string text = terminal_plot(kCurves, {.width = 60, .height = 12, .x_label = "round"});
  EXPECT_TRUE(utf8::valid(text));
  EXPECT_THAT(text, AllOf(HasSubstr("●"), HasSubstr("▲"), HasSubstr("⠤"), HasSubstr("└"), Not(HasSubstr("\x1b"))));
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 62U) << line;
  const std::string coloured = terminal_plot(kCurves, {.width = 60, .height = 12, .colour = true});
  EXPECT_THAT(coloured, AllOf(HasSubstr("\x1b[36m"), HasSubstr("\x1b[33m▲\x1b[0m falling")));
}

TEST(TerminalPlot, DrawsAnyInput) {
  const std::vector<Curve> odd = {
      {"one point", {{5, 5}}},
      {"none", {}},
      {"nan", {{1, std::nan("")}, {HUGE_VAL, 2}, {2, 5}}},
      {"a very long name \x1b[31m that goes on and on and on and on and on", {{9, 5}, {1, 5}}}};
  for (const std::size_t width : {0, 1, 30, 200}) {
    for (const std::size_t height : {0, 9, 60}) {
      const std::string text = terminal_plot(odd, {.width = width, .height = height});
      EXPECT_THAT(text, AllOf(HasSubstr("one point"), Not(HasSubstr("\x1b[31m"))));
    }
  }
  EXPECT_THAT(terminal_plot({}, {}), HasSubstr("no points"));
  EXPECT_THAT(terminal_plot(std::vector<Curve>{{"empty", {}}}, {}), HasSubstr("no points"));
}

TEST(TerminalPlot, ACurveThatIsHiddenByAnEqualOneIsNamed) {
  const std::vector<Curve> curves = {{"a", {{0, 1}, {1, 2}}}, {"b", {{0, 1}, {1, 3}}}, {"c", {{0, 1}, {1, 2}}}};
  const std::string text = terminal_plot(curves, {.width = 60, .height = 12});
  EXPECT_THAT(text, HasSubstr("● a (equal to ■)   ▲ b   ■ c\n"));
}

TEST(TerminalPlot, TakesUnicodeFromTheLocale) {
  const std::string before = std::getenv("LC_ALL") != nullptr ? std::getenv("LC_ALL") : "";
  ::setenv("LC_ALL", "de_DE.UTF-8", 1);
  EXPECT_TRUE(plot_options_for(-1).unicode);
  ::setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(plot_options_for(-1).unicode);
  ::setenv("LC_ALL", "POSIX", 1);
  EXPECT_FALSE(plot_options_for(-1).unicode);
  EXPECT_FALSE(plot_options_for(-1).colour);
  ::setenv("LC_ALL", before.c_str(), 1);
}

TEST(SvgPlot, EscapesNames) {
  const std::string svg = svg_plot(std::vector<Curve>{{"<b> & \"c\"", {{1, 1}, {2, 4}}}}, {.title = "a<b"});
  EXPECT_THAT(svg, AllOf(HasSubstr("&lt;b&gt; &amp; &quot;c&quot;"), HasSubstr("a&lt;b"), Not(HasSubstr("<b>"))));
  EXPECT_THAT(svg, AllOf(HasSubstr("<polyline points=\""), testing::EndsWith("</svg>\n"), Not(HasSubstr("nan"))));
}

TEST(SvgPlot, ManyEqualAndAimedAtCurvesAreToldApart) {
  std::vector<Curve> curves;
  for (int i = 0; i < 9; ++i) curves.push_back({fmt::format("run {}", i), {{1, 0.1 * i}, {10, 0.1 * i + 0.05}}});
  curves.push_back({"twin", curves[0].points});
  const std::string svg = svg_plot(curves, {.title = "t", .target = 1.25});
  std::vector<std::string> strokes;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) {
    const std::size_t begin = svg.find("stroke=", at);
    strokes.push_back(svg.substr(begin, svg.find("/>", begin) - begin));
  }
  ASSERT_EQ(strokes.size(), 10U);
  EXPECT_EQ(std::set<std::string>(strokes.begin(), strokes.end()).size(), 10U) << "no two look the same";
  EXPECT_THAT(strokes[9], HasSubstr("stroke-dasharray=\"14 14\"")) << "its twin is seen through the gaps";
  EXPECT_THAT(svg, HasSubstr(">target 1.25<"));
  EXPECT_THAT(svg, Not(HasSubstr("cx=\"70.0\""))) << "no mark is on the frame";
  EXPECT_THAT(svg_plot(curves, {}), Not(HasSubstr("target")));
}

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_compare_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  struct Run {
    std::string name;
    std::string metric = "accuracy";
    std::vector<double> scores{};
    bool finished = true;
    std::vector<DecileSummary> deciles{};
    double emulated = 0;  // seconds per round; 0: none
  };

  fs::path make(const Run& run) const {
    RunFolder made = RunFolder::create({.parent = folder_, .name = run.name});
    auto tracker = made.tracker(0, std::vector<std::string>{});
    const bool lower = run.metric == "perplexity";
    tracker->record({"run_started",
                     0,
                     {{"rounds", 50}},
                     {{"algorithm", "fedavg"}, {"metric", run.metric}, {"goal", lower ? "min" : "max"}}});
    RunSummary summary{.algorithm = "fedavg", .metric = run.metric, .higher_is_better = !lower};
    for (const double score : run.scores) {
      ++summary.rounds;
      Event round{"round", summary.rounds, {{"seconds", 2}, {"bytes_up", 10}, {"bytes_down", 20}, {"examples", 100}}};
      if (run.emulated > 0) round.numbers["emulated_seconds"] = run.emulated;
      tracker->record(round);
      tracker->record({"evaluation", summary.rounds, {{run.metric, score + 1}}, {{"split", "train"}}});
      tracker->record({"evaluation",
                       summary.rounds,
                       {{run.metric, score}, {"loss", 1 - score}, {"examples", 7}},
                       {{"split", "test"}}});
      summary.seconds += 2;
      summary.bytes_up += 10;
      summary.bytes_down += 20;
      summary.examples += 100;
    }
    summary.deciles = run.deciles;
    if (run.finished) made.write_summary(summary);
    return made.path();
  }

  fs::path folder_;
};

const PlotOptions kAscii{.width = 60, .height = 12, .unicode = false};

TEST_F(Compare, ShowsBestLastAndCosts) {
  const auto a = make({.name = "a", .scores = {0.2, 0.8, 0.7}}), b = make({.name = "b", .scores = {0.1, 0.4}});
  const Comparison comparison = compare_runs({.runs = {a, b}, .x = "bytes", .target = 0.7});
  EXPECT_EQ(comparison.metric, "accuracy");
  ASSERT_EQ(comparison.runs.size(), 2U);
  EXPECT_EQ(comparison.runs[0].best, 0.8);
  EXPECT_EQ(comparison.runs[0].best_round, 2);
  EXPECT_EQ(comparison.runs[0].last, 0.7);
  EXPECT_EQ(comparison.runs[0].rounds_to_target, 2);
  EXPECT_FALSE(comparison.runs[1].rounds_to_target.has_value());
  EXPECT_EQ(curves_of(comparison)[0].points[2], (std::pair<double, double>{90, 0.7}));
  const std::string text = to_text(comparison, kAscii);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("a    fedavg          3         0.8000         2  0.7000     2 rounds       300   90 B  6.0 s"),
            HasSubstr("not reached"), HasSubstr("bytes"), HasSubstr("* a   o b"), Not(HasSubstr("not finished"))));
  const auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json["runs"][0]["best"], 0.8);
  EXPECT_EQ(json["runs"][0]["curve"][1]["seconds"], 4);
  EXPECT_EQ(json["runs"][1]["rounds_to_target"], nullptr);
  EXPECT_EQ(json["runs"][1]["status"], "finished");
  EXPECT_THAT(to_svg(comparison), HasSubstr("accuracy by bytes"));
}

TEST_F(Compare, DrawsOverTheTimeOfEmulatedDevices) {
  const auto a = make({.name = "a", .scores = {0.2, 0.8}, .emulated = 60});
  const auto b = make({.name = "b", .scores = {0.1, 0.4}, .emulated = 5400}), c = make({.name = "c", .scores = {0.1}});
  const Comparison brief = compare_runs({.runs = {a}, .x = "emulated", .target = 0.7});
  EXPECT_EQ(brief.x, "emulated seconds");
  EXPECT_EQ(brief.runs[0].emulated_to_target, 120);
  EXPECT_EQ(curves_of(brief)[0].points[1], (std::pair<double, double>{120, 0.8}));
  EXPECT_THAT(to_text(brief, kAscii), HasSubstr("2 rounds, 2:00 min"));
  const Comparison lasting = compare_runs({.runs = {a, b}, .x = "emulated"});
  EXPECT_EQ(lasting.x, "emulated hours");
  EXPECT_EQ(curves_of(lasting)[1].points[1], (std::pair<double, double>{3, 0.4}));
  EXPECT_THAT(to_text(lasting, kAscii), AllOf(HasSubstr("3:00 h"), HasSubstr("emulated hours")));
  EXPECT_EQ(nlohmann::json::parse(to_json(lasting))["runs"][1]["emulated_seconds"], 10800);
  EXPECT_EQ(lasting.runs[0].run.metrics(), (std::vector<std::string>{"accuracy", "loss"}));
  EXPECT_THAT(message_of<ConfigError>([&] { compare_runs({.runs = {a, c}, .x = "emulated"}); }), HasSubstr("c: "));
  EXPECT_THAT(to_text(compare_runs({.runs = {c}}), kAscii), Not(HasSubstr("emulated")));
}

TEST_F(Compare, LowerIsBetterForPerplexity) {
  const auto a = make({.name = "a", .metric = "perplexity", .scores = {90, 30, 40}});
  const Comparison comparison = compare_runs({.runs = {a}, .target = 50});
  EXPECT_EQ(comparison.runs[0].best, 30);
  EXPECT_EQ(comparison.runs[0].rounds_to_target, 2);
  EXPECT_EQ(compare_runs({.runs = {make({.name = "b", .scores = {0.9, 0.2}})}, .metric = "loss"}).runs[0].best,
            1 - 0.9);
}

TEST_F(Compare, AnUnfinishedRunWorksAndSaysSo) {
  const auto a = make({.name = "a", .scores = {0.2, 0.8}, .finished = false});
  std::ofstream(a / "metrics.jsonl", std::ios::app) << R"({"kind":"rou)";
  const Comparison comparison = compare_runs({.runs = {a}});
  EXPECT_EQ(comparison.runs[0].run.rounds, 2);
  EXPECT_THAT(to_text(comparison, kAscii), HasSubstr("a is not finished (round 2 of 50)"));
  EXPECT_EQ(nlohmann::json::parse(to_json(comparison))["runs"][0]["status"], "unfinished");
  const auto fresh = make({.name = "fresh", .finished = false});
  EXPECT_THAT(to_text(compare_runs({.runs = {fresh}}), kAscii), HasSubstr("no points to draw yet"));
}

TEST_F(Compare, ShowsChangesAgainstABaseline) {
  const std::vector<DecileSummary> base_deciles = {{"1", 10, {{"accuracy", 0.5}}}, {"2", 11, {{"accuracy", 0.4}}}};
  const std::vector<DecileSummary> deciles = {{"1", 10, {{"accuracy", 0.6}}}, {"2", 11, {{"accuracy", 0.3}}}};
  const auto base = make({.name = "base", .scores = {0.5}, .deciles = base_deciles});
  const auto other = make({.name = "other", .scores = {0.6}, .deciles = deciles});
  const auto plain = make({.name = "plain", .scores = {0.25}});
  const std::string text =
      to_text(compare_runs({.runs = {other, plain}, .baseline = fs::path(base.string() + "/")}), kAscii);
  EXPECT_THAT(text, AllOf(HasSubstr("baseline"), HasSubstr("+20.0 %"), HasSubstr("-50.0 %"),
                          HasSubstr("Change against base"), HasSubstr("accuracy by decile"),
                          HasSubstr("whole test set (0.5000)"), HasSubstr("2            11  -20.0 %  -40.0 %")));
  EXPECT_EQ(compare_runs({.runs = {other, base}, .baseline = base}).runs.size(), 2U);
  EXPECT_FALSE(change_against(1, 0).has_value());
  EXPECT_FALSE(change_against(std::nan(""), 1).has_value());
  EXPECT_DOUBLE_EQ(change_against(-1, -2).value(), 0.5);
}

TEST_F(Compare, ReportsMistakes) {
  const auto a = make({.name = "a", .scores = {0.2}}), p = make({.name = "p", .metric = "perplexity", .scores = {3}});
  const auto message = [&](const CompareOptions& options) {
    return message_of<ConfigError>([&] { (void)compare_runs(options); });
  };
  EXPECT_THAT(message({.runs = {a, p}}), AllOf(HasSubstr("different main scores"), HasSubstr("--metric: loss")));
  EXPECT_EQ(compare_runs({.runs = {a, p}, .metric = "loss"}).runs.size(), 2U);
  EXPECT_THAT(message({.runs = {a}, .metric = "acuracy"}),
              AllOf(HasSubstr("no score 'acuracy'"), HasSubstr("accuracy")));
  EXPECT_THAT(message({.runs = {a, a}}), HasSubstr("named twice"));
  EXPECT_THAT(message({.runs = {a}, .x = "time"}), HasSubstr("unknown axis 'time'"));
  EXPECT_THAT(message({}), HasSubstr("at least one"));
  EXPECT_THROW(compare_runs({.runs = {folder_}}), DataError);
  EXPECT_THROW(compare_runs({.runs = {folder_ / "nowhere"}}), DataError);
  EXPECT_THROW(compare_runs({.runs = {a / "run.json"}}), DataError);
  std::ofstream(a / "summary.json", std::ios::trunc) << "{";
  EXPECT_THROW(compare_runs({.runs = {a}}), DataError);
}

}  // namespace
}  // namespace chorus::inline compare

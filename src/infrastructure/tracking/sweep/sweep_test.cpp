#include "infrastructure/tracking/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/run_folder.h"
#include "infrastructure/tracking/run_lock.h"
#include "tests/support.h"

namespace chorus::inline sweep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SweepPlan, CasesTieSettingsTogether) {
  const SweepCase one = parse_sweep_case("AdaFL: algorithm=adafl; tuning={name: pfeiffer, width: 64}");
  EXPECT_EQ(one.name, "AdaFL");
  EXPECT_EQ(one.settings, (std::vector<std::string>{"algorithm=adafl", "tuning={name: pfeiffer, width: 64}"}));
  EXPECT_TRUE(parse_sweep_case("plain:").settings.empty());
  EXPECT_THROW(parse_sweep_case("algorithm=adafl"), ConfigError);
  EXPECT_THROW(parse_sweep_case("x: adafl"), ConfigError);
}

TEST(SweepPlan, ReadsKeysAndValues) {
  EXPECT_THAT(parse_sweep_key("a.b=1,2,x").values, ElementsAre("1", "2", "x"));
  EXPECT_THAT(parse_sweep_key("a=[1,2],{x: 3, y: 4},'p,q'").values, ElementsAre("[1,2]", "{x: 3, y: 4}", "'p,q'"));
  EXPECT_EQ(parse_sweep_key("a=b=c").values.front(), "b=c");
  for (const char* wrong : {"a", "=1", "a=", "a=1,,2", "a=1,2,", "", "a=1,1"}) {
    EXPECT_THROW(parse_sweep_key(wrong), ConfigError) << wrong;
  }
}

TEST(SweepPlan, CombinesValues) {
  const auto points = sweep_points({parse_sweep_key("a.x=1,2"), parse_sweep_key("b=u,v,w")});
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(point_name(points[4]), "x=2 b=v");
  EXPECT_EQ(point_folder(points[4], 3), "x=2_b=v_seed=3");
  EXPECT_EQ(point_name({{"a.x", "1"}, {"b.x", "2"}}), "a.x=1 b.x=2");
  EXPECT_EQ(sweep_points({}).size(), 1U);
  EXPECT_EQ(point_folder({}, 1), "seed=1");
  EXPECT_THROW(sweep_points({parse_sweep_key("a=1,2"), parse_sweep_key("a=3,4")}), ConfigError);
  std::string many = "k=0";
  for (int i = 1; i < 200; ++i) many += "," + std::to_string(i);
  EXPECT_THROW(sweep_points({parse_sweep_key(many), parse_sweep_key("l" + many)}), ConfigError);
}

TEST(SweepPlan, FoldersAreSafeAndDiffer) {
  const SweepPoint slash = {{"k", "a/b"}}, other = {{"k", "a:b"}}, dots = {{"k", "../../etc"}};
  EXPECT_NE(point_folder(slash, 1), point_folder(other, 1));
  EXPECT_NE(point_folder({{"k", "a b"}}, 1), point_folder({{"k", "a_b"}}, 1));
  EXPECT_NE(point_folder({{"k", "1_l=2"}, {"l", "3"}}, 1), point_folder({{"k", "1"}, {"l", "2_l=3"}}, 1));
  for (const SweepPoint& point :
       {slash, other, dots, SweepPoint{{"k", std::string(500, 'x')}}, SweepPoint{{".", "-"}}}) {
    const std::string name = point_folder(point, 1);
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_NE(name.front(), '.');
    EXPECT_NE(name.front(), '-');
    EXPECT_LT(name.size(), 200U);
  }
  EXPECT_THAT(point_folder({{"selection", "{name: uniform}"}}, 1),
              testing::MatchesRegex("selection=_name_uniform_[0-9a-f]+_seed=1"));
}

TEST(MeanDeviation, IsThatOfTheSample) {
  const MeanDeviation result = mean_deviation({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(result.mean, 2.5);
  EXPECT_DOUBLE_EQ(result.deviation, std::sqrt(5.0 / 3.0));
  EXPECT_EQ(mean_deviation({7}).deviation, 0);
  EXPECT_EQ(mean_deviation({}).count, 0U);
}

/// The sweeps below start a shell script instead of the program: it writes the requested run folder with the score
/// mu * 0.1 + seed * 0.01, records every call, and fails for mu=9.
class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_sweep_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    program(R"(
if [ "$mu" = 9 ]; then echo "working"; echo "chorus: mu is too large" >&2; exit 2; fi
mkdir -p "$dir"
echo '{"format": 1, "name": "x", "command": "", "chorus_version": "", "torch_version": "", "seed": 0, "started": ""}' > "$dir/run.json"
score=$(awk "BEGIN { print $mu * 0.1 + $seed * 0.01 }")
cat > "$dir/summary.json" <<END
{"format": 1, "status": "finished", "algorithm": "fedprox", "metric": "accuracy", "higher_is_better": true,
 "rounds": 3, "best_round": 3, "last": {"accuracy": $score}, "best": {"accuracy": $score},
 "examples": 1, "bytes_up": 1, "bytes_down": 1, "seconds": 1}
END
)");
    std::ofstream(folder_ / "config.yaml") << "rounds: 3\n";
    options_.config = folder_ / "config.yaml";
    options_.folder = folder_ / "runs" / "sweep";
    options_.program = folder_ / "program";
    options_.keys = {parse_sweep_key("algorithm.mu=1,5,2")};
    options_.seeds = 2;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void program(const std::string& body) const {
    const fs::path path = folder_ / "program";
    const std::string calls = (folder_ / "calls").string();
    std::ofstream(path, std::ios::trunc) << "#!/bin/bash\necho \"$@\" >> '" << calls << "'\n"
                                         << R"(if [ "$1" = resume ]; then dir=$2; mu=3; seed=3; fi
for word in "$@"; do
  case "$word" in
    algorithm.mu=*) mu=${word#*=} ;;
    seed=*) seed=${word#*=} ;;
    --run-folder) take=1 ;;
    *) if [ -n "$take" ]; then dir=$word; take=; fi ;;
  esac
done
)" << body;
    ::chmod(path.c_str(), 0755);
  }
  std::size_t calls() const {
    const std::string text = fs::exists(folder_ / "calls") ? read_file(folder_ / "calls") : "";
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  fs::path folder_;
  SweepOptions options_;
};

TEST_F(SweepTest, RunsEveryPointWithEverySeed) {
  options_.overrides = {"rounds=7"};
  const Sweep sweep = run_sweep(options_);
  EXPECT_EQ(calls(), 6U);
  EXPECT_THAT(read_file(folder_ / "calls"),
              HasSubstr("run " + options_.config.string() + " rounds=7 algorithm.mu=5 seed=2 --run-folder " +
                        (options_.folder / "mu=5_seed=2").string() + "\n"));
  EXPECT_EQ(sweep.metric, "accuracy");
  EXPECT_THAT(sweep.order, ElementsAre(1, 2, 0));
  EXPECT_NEAR(sweep.best[1].mean, 0.515, 1e-9);
  EXPECT_NEAR(sweep.best[1].deviation, 0.01 / std::sqrt(2.0), 1e-9);
  EXPECT_THAT(to_text(sweep), HasSubstr("5             0.5150 ± 0.0071  0.5150 ± 0.0071     2"));
  const auto json = nlohmann::json::parse(read_file(options_.folder / "sweep.json"));
  EXPECT_EQ(json["points"][0]["values"]["algorithm.mu"], "5");
  EXPECT_EQ(json["points"][0]["best"]["count"], 2);
  EXPECT_EQ(json["runs"].size(), 6U);
  EXPECT_EQ(json["runs"][0]["status"], "finished");
}

TEST_F(SweepTest, ChecksEveryPointBeforeTheFirstRun) {
  std::vector<std::string> seen;
  options_.check = [&](const std::vector<std::string>& settings) {
    seen.push_back(settings.back());
    if (seen.size() == 2) throw ConfigError("the second is wrong");
  };
  EXPECT_THROW((void)run_sweep(options_), ConfigError);
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_FALSE(fs::exists(options_.folder));
}

TEST_F(SweepTest, RepeatedItRunsOnlyWhatIsMissing) {
  (void)run_sweep(options_);
  options_.seeds = 3;
  options_.keys = {parse_sweep_key("algorithm.mu=1,4")};
  std::size_t skipped = 0;
  const Sweep sweep = run_sweep(options_, [&](const Sweep&, const SweepRun& run) { skipped += run.skipped ? 1 : 0; });
  EXPECT_EQ(skipped, 2U);
  EXPECT_EQ(calls(), 6U + 4U);
  EXPECT_EQ(sweep.best[0].count, 3U);
}

TEST_F(SweepTest, ResumesARunThatHasACheckpoint) {
  const fs::path half = options_.folder / "mu=1_seed=1", young = options_.folder / "mu=1_seed=2";
  (void)run_sweep(options_);
  fs::remove(half / "summary.json");
  fs::create_directories(half / "checkpoints" / "round_000002");
  fs::remove(young / "summary.json");
  std::ofstream(young / "left.txt") << "of the run that was killed before its first checkpoint";
  const Sweep sweep = run_sweep(options_);
  EXPECT_EQ(calls(), 8U);
  EXPECT_THAT(read_file(folder_ / "calls"), HasSubstr("resume " + half.string()));
  EXPECT_FALSE(fs::exists(young / "left.txt"));
  EXPECT_EQ(sweep.best[0].count, 2U);
}

TEST_F(SweepTest, AFailingRunIsReportedAndTheOthersContinue) {
  options_.keys = {parse_sweep_key("algorithm.mu=9,1")};
  options_.jobs = 3;
  const Sweep sweep = run_sweep(options_);
  EXPECT_EQ(sweep.best[0].count, 0U);
  EXPECT_EQ(sweep.best[1].count, 2U);
  EXPECT_THAT(sweep.order, ElementsAre(1, 0));
  EXPECT_EQ(sweep.runs[0].failure, "exit status 2: chorus: mu is too large");
  EXPECT_THAT(to_text(sweep), AllOf(HasSubstr("0 of 2"), HasSubstr("failed: mu=9 seed=1: exit status 2")));
  EXPECT_EQ(nlohmann::json::parse(to_json(sweep))["runs"][0]["status"], "failed");
}

TEST_F(SweepTest, ReportsAProgramThatCannotStartOrPrintsNothing) {
  options_.keys.clear();
  options_.seeds = 1;
  options_.program = folder_ / "nothing";
  EXPECT_THAT(run_sweep(options_).runs[0].failure, HasSubstr("cannot be started"));
  program("exit 0\n");
  options_.program = folder_ / "program";
  EXPECT_EQ(run_sweep(options_).runs[0].failure, "it ended without a summary");
  program("kill -9 $$\n");
  EXPECT_EQ(run_sweep(options_).runs[0].failure, "exit status 137");
  program("mkdir -p $dir; echo '{' > $dir/summary.json\n");
  EXPECT_THAT(run_sweep(options_).runs[0].failure, HasSubstr("summary.json: is not a summary"));
}

TEST_F(SweepTest, CtrlCStopsItAndTheNextCallContinues) {
  program("exit 130\n");
  const Sweep sweep = run_sweep(options_);
  EXPECT_TRUE(sweep.interrupted);
  EXPECT_EQ(calls(), 1U);
  EXPECT_TRUE(sweep.runs[0].failure.empty());
  // A terminal sends the signal to both processes.
  program("kill -INT $PPID; sleep 0.1; exit 130\n");
  EXPECT_TRUE(run_sweep(options_).interrupted);
  EXPECT_EQ(calls(), 2U);
}

TEST_F(SweepTest, RefusesWhatItMustNotTouch) {
  const auto message = [&] { return message_of<ConfigError>([&] { (void)run_sweep(options_); }); };
  options_.keys = {parse_sweep_key("seed=1,2")};
  EXPECT_THAT(message(), HasSubstr("--seeds"));
  options_.keys = {parse_sweep_key("algorithm.mu=1,2")};
  (void)run_sweep(options_);
  std::ofstream(options_.config, std::ios::trunc) << "rounds: 4\n";
  EXPECT_THAT(message(), HasSubstr("another configuration"));
  options_.folder = folder_ / "other";
  fs::create_directories(options_.folder / "things");
  EXPECT_THAT(message(), HasSubstr("is not a sweep"));
  { const RunFolder run = RunFolder::create({.folder = folder_ / "run"}); }
  options_.folder = folder_ / "run";
  EXPECT_THAT(message(), HasSubstr("is a run, not a sweep"));
  options_.config = folder_ / "none.yaml";
  EXPECT_THROW(run_sweep(options_), DataError);
}

TEST_F(SweepTest, OneProcessAtATime) {
  options_.keys.clear();
  (void)run_sweep(options_);
  const RunLock lock(options_.folder, "taken");
  EXPECT_THAT(message_of<WorldError>([&] { (void)run_sweep(options_); }), HasSubstr("another process is working"));
}

}  // namespace
}  // namespace chorus::inline sweep

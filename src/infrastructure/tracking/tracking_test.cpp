#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/run_folder.h"
#include "tests/support.h"

namespace chorus::inline tracking {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Tracking : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_tracking_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    metrics_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void append(const std::string& text) const { std::ofstream(metrics_, std::ios::app) << text; }

  fs::path folder_, metrics_;
};

Event round_event(std::int64_t round) { return {"round", round, {{"loss", 1.0 / static_cast<double>(round)}}, {}, 5}; }

TEST_F(Tracking, EventsAreOneLineOfJson) {
  const Event event{"evaluation", 3, {{"accuracy", 0.1}, {"examples", 1e6}}, {{"split", "te\nst \"é\""}}, 17.25};
  const std::string line = event_line(event);
  EXPECT_EQ(line, R"({"kind":"evaluation","round":3,"time":17.25,"split":"te\nst \"é\"","accuracy":0.1,)"
                  R"("examples":1000000})");
  EXPECT_EQ(parse_event(line, "here"), event);
}

TEST_F(Tracking, NumbersKeepTheirBits) {
  for (const double value : {0.1, -0.0, 1e300, 5e-324, 9007199254740993.0, -3.0, 1.0 / 3.0}) {
    const double back = parse_event(event_line({"round", 1, {{"x", value}}}), "here").numbers.at("x");
    EXPECT_EQ(back, value);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
  }
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_TRUE(std::isnan(parse_event(event_line({"round", 1, {{"x", value}}}), "here").numbers.at("x")));
  }
}

TEST_F(Tracking, RefusesReservedOrRepeatedNames) {
  EXPECT_THROW(event_line({"round", 1, {{"time", 1}}}), InternalError);
  EXPECT_THROW(event_line({"round", 1, {{"a", 1}}, {{"a", "b"}}}), InternalError);
  EXPECT_THROW(event_line({"round", 1, {}, {{"kind", "b"}}}), InternalError);
}

TEST_F(Tracking, InvalidLinesAreRefusedWithTheirLocation) {
  for (const char* line : {"", "{", "[]", "3", R"({"kind":"a"})", R"({"round":1})", R"({"kind":1,"round":1})",
                           R"({"kind":"a","round":1.5})", R"({"kind":"a","round":1,"x":[1]})", "\xff\xfe"}) {
    EXPECT_THAT(message_of<DataError>([&] { (void)parse_event(line, "m.jsonl:7"); }),
                HasSubstr("m.jsonl:7: is not an event"));
  }
  append("{\"kind\":\"a\",\"round\":1}\nnonsense\n{\"kind\":\"a\",\"round\":2}\n");
  EXPECT_THAT(message_of<DataError>([&] { (void)read_events(metrics_); }),
              HasSubstr("metrics.jsonl:2: is not an event"));
  EXPECT_THROW(cut_events_after(metrics_, 1), DataError);
}

TEST_F(Tracking, CutsEventsAfterTheCheckpointAndAPartialLine) {
  {
    MetricsLog log(metrics_);
    for (std::int64_t round = 1; round <= 4; ++round) log.record(round_event(round));
    log.record({"run_finished", 2});
  }
  append(R"({"kind":"round","rou)");
  EXPECT_EQ(read_events(metrics_).size(), 5U);
  EXPECT_EQ(cut_events_after(metrics_, 2).size(), 2U);
  EXPECT_EQ(read_file(metrics_), event_line(round_event(1)) + "\n" + event_line(round_event(2)) + "\n");
  // Only the newline was lost: the event counts.
  append(event_line(round_event(2)));
  EXPECT_EQ(cut_events_after(metrics_, 2).size(), 3U);
  MetricsLog(metrics_).record(round_event(3));
  EXPECT_EQ(read_events(metrics_).size(), 4U);
  EXPECT_TRUE(read_events(folder_ / "none").empty());
}

// A writer killed at any moment leaves complete lines and at most one partial line.
TEST_F(Tracking, SurvivesSigkill) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t child = ::fork();
    if (child == 0) {
      MetricsLog log(metrics_);
      for (std::int64_t round = 1;; ++round) log.record(round_event(round));
    }
    ::usleep(static_cast<useconds_t>(1000 + 700 * attempt));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::vector<Event> kept = cut_events_after(metrics_, 10);
    ASSERT_LE(kept.size(), 10U);
    for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], round_event(static_cast<std::int64_t>(i) + 1));
    ASSERT_EQ(read_events(metrics_), kept);
    fs::remove(metrics_);
  }
}

/// The limit cannot be lifted again, so a child process reports what `call` throws when no file may exceed `bytes`.
template <typename F>
std::string with_full_disk(rlim_t bytes, F call) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of<WorldError>(call);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    (void)!::write(ends[1], message.data(), message.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  const ssize_t got = ::read(ends[0], message.data(), message.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  message.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return message;
}

TEST_F(Tracking, AFullDiskIsOneSentenceAndKeepsCompleteLines) {
  const std::string message = with_full_disk(1000, [&] {
    MetricsLog log(metrics_);
    for (std::int64_t round = 1; round < 1000; ++round) log.record(round_event(round));
  });
  EXPECT_THAT(message, HasSubstr("metrics.jsonl: cannot be written: File too large"));
  const std::string text = read_file(metrics_);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_GT(read_events(metrics_).size(), 10U);

  RunFolder run = RunFolder::create({.folder = folder_ / "run"});
  run.write_summary({.metric = "accuracy", .last = {{"accuracy", 0.5}}});
  EXPECT_THAT(with_full_disk(10, [&] { run.write_summary({.metric = "f1"}); }),
              HasSubstr("summary.json: cannot be written"));
  EXPECT_EQ(read_run_summary(run.path())->metric, "accuracy");
  EXPECT_THAT(
      with_full_disk(10, [&] { RunFolder::create({.folder = folder_ / "more", .config_yaml = "a: 123456789"}); }),
      HasSubstr("cannot be written"));
  EXPECT_FALSE(fs::exists(folder_ / "more"));
  for (const auto& left : fs::directory_iterator(folder_))
    EXPECT_FALSE(left.path().filename().string().ends_with("tmp"));
}

TEST_F(Tracking, ARunFolderIsCompleteFromTheStart) {
  RunInfo info{.command = "chorus run a.yaml", .chorus_version = "0.1.0", .torch_version = "1.13.1", .seed = ~0ULL};
  const RunFolder run =
      RunFolder::create({.parent = folder_ / "runs", .name = "a", .config_yaml = "rounds: 3\n", .info = info});
  EXPECT_EQ(run.path(), folder_ / "runs" / "a");
  EXPECT_EQ(read_file(run.config()), "rounds: 3\n");
  const RunInfo back = read_run_info(run.path());
  EXPECT_EQ(back.name, "a");
  EXPECT_EQ(back.seed, ~0ULL);
  EXPECT_EQ(back.command, info.command);
  EXPECT_EQ(back.torch_version, "1.13.1");
  EXPECT_THAT(back.started, testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST_F(Tracking, ARunRemembersWhereItsPathsStartFromAndNothingElse) {
  const fs::path before = fs::current_path();
  const fs::path start = fs::canonical(folder_);
  fs::current_path(start);
  { const RunFolder below = RunFolder::create({.parent = "runs", .name = "a"}); }
  fs::current_path(before);
  EXPECT_EQ(read_run_info(start / "runs" / "a").directory, "../..");
  EXPECT_EQ(working_directory_of(start / "runs" / "a"), start);
  { const RunFolder elsewhere = RunFolder::create({.folder = start / "b"}); }
  EXPECT_EQ(read_run_info(start / "b").directory, "");
  EXPECT_EQ(working_directory_of(start / "b"), before);
}

TEST_F(Tracking, NeverOverwritesARun) {
  { const RunFolder first = RunFolder::create({.parent = folder_, .name = "a"}); }
  EXPECT_THAT(message_of<ConfigError>([&] { RunFolder::create({.parent = folder_, .name = "a"}); }),
              HasSubstr("chorus resume"));
  fs::create_directories(folder_ / "other" / "things");
  EXPECT_THAT(message_of<ConfigError>([&] { RunFolder::create({.folder = folder_ / "other"}); }),
              HasSubstr("exists already"));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(RunFolder::create({.folder = folder_ / "file"}), ConfigError);
  EXPECT_THROW(RunFolder::create({.folder = folder_ / "file" / "below"}), DataError);
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(RunFolder::create({.folder = folder_ / "empty" / ""}).info().name, "empty");
  for (const char* name : {"..", ".", "a/b", "-x", ".x", "\xff", "a\nb"}) {
    EXPECT_THROW(RunFolder::create({.parent = folder_, .name = name}), ConfigError) << name;
  }
}

TEST_F(Tracking, NumbersRunsOfTheSameExperiment) {
  const NewRun run{.parent = folder_, .experiment = "fedavg"};
  EXPECT_EQ(RunFolder::create(run).info().name, "fedavg-001");
  const RunFolder second = RunFolder::create(run);
  EXPECT_EQ(second.info().name, "fedavg-002");
  EXPECT_EQ(RunFolder::create(run).info().name, "fedavg-003");
  fs::remove_all(folder_ / "fedavg-001");
  EXPECT_EQ(RunFolder::create(run).info().name, "fedavg-001");
}

TEST_F(Tracking, OneProcessWritesARun) {
  {
    const RunFolder run = RunFolder::create({.parent = folder_, .name = "a"});
    EXPECT_THAT(message_of<WorldError>([&] { RunFolder::open(run.path()); }), HasSubstr("another process is working"));
    RunFolder moved = RunFolder::create({.parent = folder_, .name = "b"});
    moved = RunFolder::create({.parent = folder_, .name = "c"});
    EXPECT_NO_THROW(RunFolder::open(folder_ / "b"));
    EXPECT_THROW(RunFolder::open(folder_ / "c"), WorldError);
  }
  EXPECT_EQ(RunFolder::open(folder_ / "a").info().name, "a");
}

TEST_F(Tracking, ReportsAFolderThatIsNotARun) {
  EXPECT_THAT(message_of<DataError>([&] { RunFolder::open(folder_ / "none"); }), HasSubstr("no such run folder"));
  EXPECT_THAT(message_of<DataError>([&] { RunFolder::open(folder_); }), HasSubstr("it has no run.json"));
  EXPECT_FALSE(fs::exists(folder_ / "lock"));
  std::ofstream(folder_ / "run.json") << R"({"format": 3, "chorus_version": "9.1"})";
  EXPECT_THAT(message_of<DataError>([&] { RunFolder::open(folder_); }),
              testing::AllOf(HasSubstr("run folder of format 3, written by Chorus 9.1"), HasSubstr("reads format 2")));
  for (const char* text :
       {"", "\x1f\x8b", "[]", "{}", R"({"format": "1"})", R"({"format": 2})", R"({"format": 2, "name": 3})"}) {
    std::ofstream(folder_ / "run.json", std::ios::trunc) << text;
    EXPECT_THAT(message_of<DataError>([&] { RunFolder::open(folder_); }), HasSubstr("run.json: is damaged")) << text;
  }
  EXPECT_THAT(message_of<DataError>([&] { RunFolder::open(folder_ / "run.json"); }), HasSubstr("is a file"));
}

TEST_F(Tracking, ResumingDropsTheSummaryAndLaterEvents) {
  RunFolder run = RunFolder::create({.parent = folder_, .name = "a"});
  {
    auto tracker = run.tracker(0, std::vector<std::string>{});
    for (std::int64_t round = 1; round <= 3; ++round) tracker->record(round_event(round));
  }
  run.write_summary({});
  { auto tracker = run.tracker(2, std::vector<std::string>{}); }
  EXPECT_FALSE(read_run_summary(run.path()).has_value());
  EXPECT_EQ(read_events(run.metrics()).size(), 2U);
  EXPECT_THROW(run.tracker(2, std::vector<std::string>{"tensorbord"}), ConfigError);
}

TEST_F(Tracking, SummariesRoundTrip) {
  RunSummary summary{.status = "target_reached", .algorithm = "fedprox", .metric = "perplexity"};
  summary.higher_is_better = false;
  summary.target = 0.1;
  summary.rounds_to_target = 7;
  summary.rounds = 9;
  summary.best_round = 8;
  summary.last = {{"perplexity", 1.0 / 3}, {"broken", std::nan("")}};
  summary.best = {{"perplexity", 0.25}};
  summary.bytes_up = 1e15;
  summary.emulated = EmulatedTotals{12.5, 300, 30, 1e6, 2e9};
  summary.targets = {{0.5, Milestone{4, 0.51, 2, 3e6, {6, 150, 15, 5e5, 2e9}}, Milestone{3, 0.49, 1, 2e6, {5}}}, {0.9}};
  summary.phases = {{"January", 1, 4, {{"perplexity", 3}}, {{"perplexity", 2}}}};
  summary.deciles = {{"1", 12, {{"perplexity", 5.5}}}};
  const std::string json = to_json(summary);
  const RunSummary back = parse_run_summary(json, "here");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.last.at("perplexity"), 1.0 / 3);
  EXPECT_EQ(back.phases.at(0).name, "January");
  EXPECT_EQ(back.deciles.at(0).clients, 12);
  EXPECT_FALSE(back.higher_is_better);
  for (std::size_t length = 0; length + 2 < json.size(); length += 13)
    EXPECT_THROW(parse_run_summary(json.substr(0, length), "here"), DataError);
  EXPECT_THAT(message_of<DataError>([] { (void)parse_run_summary(R"({"format": 3})", "here"); }),
              HasSubstr("here: has format 3"));
  EXPECT_THROW(parse_run_summary(R"({"format": 1, "status": []})", "here"), DataError);
}

}  // namespace
}  // namespace chorus::inline tracking

#include "algorithm/privacy/budget_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline privacy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Mechanism kStep{.noise = 1, .sampling_rate = 0.1};

class Ledger : public testing::Test {
 protected:
  BudgetLedger::Place place() const { return {.file = run() / "privacy.ledger", .mirror = folder_.path() / "mirror"}; }
  fs::path run() const {
    fs::create_directories(folder_.path() / "run");
    return folder_.path() / "run";
  }
  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  std::string refusal() const {
    try {
      BudgetLedger ledger(place(), Adjacency::kAddRemove);
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
};

TEST_F(Ledger, RemembersWhatWasCharged) {
  {
    BudgetLedger ledger(place(), Adjacency::kAddRemove);
    for (int i = 0; i < 3; ++i) ledger.charge(kStep, "round");
    ledger.charge({.kind = MechanismKind::kLaplace, .noise = 2}, "vocabulary");
  }
  const BudgetLedger again(place(), Adjacency::kAddRemove);
  EXPECT_EQ(again.charges(), 4U);
  const Releases releases = again.releases(1e-5);
  ASSERT_EQ(releases.mechanisms.size(), 2U);
  EXPECT_EQ(releases.mechanisms[0].steps, 3);
  EXPECT_EQ(releases.mechanisms[0].sampling_rate, 0.1);
  EXPECT_EQ(releases.mechanisms[1].kind, MechanismKind::kLaplace);
}

// Whatever prefix of the file a crash leaves, every charge that had returned before it is still there.
TEST_F(Ledger, SurvivesACrashAtEveryByte) {
  std::vector<std::size_t> ends;
  {
    BudgetLedger ledger({.file = place().file}, Adjacency::kAddRemove);
    ends.push_back(text_of(place().file).size());
    for (int i = 0; i < 3; ++i) {
      ledger.charge(kStep, "round");
      ends.push_back(text_of(place().file).size());
    }
  }
  const std::string whole = text_of(place().file);
  for (std::size_t size = ends[0]; size <= whole.size(); ++size) {
    write(place().file, whole.substr(0, size));
    BudgetLedger ledger({.file = place().file}, Adjacency::kAddRemove);
    const auto finished = static_cast<std::size_t>(
        std::count_if(ends.begin() + 1, ends.end(), [&](std::size_t end) { return end <= size; }));
    ASSERT_EQ(ledger.charges(), finished) << size;
    ledger.charge(kStep, "again");
    ASSERT_EQ(ledger.charges(), finished + 1);
  }
}

TEST_F(Ledger, Case20SurvivesAKilledProcess) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    BudgetLedger ledger(place(), Adjacency::kAddRemove);
    for (;;) {
      ledger.charge(kStep, "round");
      const char byte = 1;
      if (::write(pipe_ends[1], &byte, 1) != 1) _exit(1);  // the release
    }
  }
  close(pipe_ends[1]);
  std::size_t released = 0;
  for (char byte = 0; released < 20 && read(pipe_ends[0], &byte, 1) == 1;) ++released;
  kill(child, SIGKILL);
  for (char byte = 0; read(pipe_ends[0], &byte, 1) == 1;) ++released;
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  const BudgetLedger ledger(place(), Adjacency::kAddRemove);
  EXPECT_GE(ledger.charges(), released);
}

TEST_F(Ledger, RestoredBackupNeverReportsLess) {
  std::string backup;
  {
    BudgetLedger ledger(place(), Adjacency::kAddRemove);
    ledger.charge(kStep, "round 1");
    backup = text_of(place().file);
    ledger.charge(kStep, "round 2");
    ledger.charge(kStep, "round 3");
  }
  write(place().file, backup);
  const BudgetLedger restored(place(), Adjacency::kAddRemove);
  EXPECT_EQ(restored.charges(), 3U);
  EXPECT_EQ(text_of(place().file).size(), text_of(place().mirror / (restored.id() + ".ledger")).size());
}

// Whoever released something knows the mark.
TEST_F(Ledger, RefusesToKnowLessThanItsMark) {
  const fs::path file = place().file;
  std::string first, second, older;
  {
    BudgetLedger ledger({.file = file}, Adjacency::kAddRemove);
    ledger.charge(kStep, "round 1");
    first = ledger.mark();
    older = text_of(file);
    ledger.charge(kStep, "round 2");
    second = ledger.mark();
  }
  const auto charges = [&](const std::string& mark) {
    return BudgetLedger({.file = file, .mark = mark}, Adjacency::kAddRemove).charges();
  };
  EXPECT_EQ(charges(first), 2U);
  EXPECT_EQ(charges(second), 2U);
  const std::string whole = text_of(file);
  fs::resize_file(file, whole.size() - 1);  // truncated
  EXPECT_THROW(charges(second), DataError);
  EXPECT_EQ(text_of(file).size(), whole.size() - 1) << "it is evidence";
  write(file, older);  // restored
  EXPECT_THROW(charges(second), DataError);
  EXPECT_EQ(charges(first), 1U);
  write(file, "");
  EXPECT_THROW(charges(first), DataError);
  fs::remove(file);  // lost
  EXPECT_THROW(charges(second), DataError);
  EXPECT_FALSE(fs::exists(file)) << "an empty ledger would look like one";
  {
    BudgetLedger another({.file = file}, Adjacency::kAddRemove);  // another one as long
    for (int i = 0; i < 2; ++i) another.charge(kStep, "round");
  }
  EXPECT_THROW(charges(second), DataError);
  for (const std::string& bad :
       std::vector<std::string>{"x", ":", first.substr(0, 32), first.substr(0, 33), first + "x", first + " ",
                                "../../../../../../etc/passwd00000:1"}) {
    EXPECT_THROW(charges(bad), DataError) << bad;
  }
}

TEST_F(Ledger, TakesALostOneFromItsCopy) {
  std::string mark;
  {
    BudgetLedger ledger(place(), Adjacency::kAddRemove);
    for (int i = 0; i < 3; ++i) ledger.charge(kStep, "round");
    mark = ledger.mark();
  }
  const std::string whole = text_of(place().file);
  fs::remove(place().file);
  BudgetLedger::Place known = place();
  known.mark = mark;
  EXPECT_EQ(BudgetLedger(known, Adjacency::kAddRemove).charges(), 3U);
  EXPECT_EQ(text_of(place().file), whole);
  fs::remove_all(place().mirror);
  fs::remove(place().file);
  EXPECT_THROW(BudgetLedger(known, Adjacency::kAddRemove), DataError);
}

TEST_F(Ledger, RefusesDamage) {
  {
    BudgetLedger ledger(place(), Adjacency::kAddRemove);
    for (int i = 0; i < 3; ++i) ledger.charge(kStep, "round");
  }
  const std::string whole = text_of(place().file);
  std::string edited = whole;
  edited.replace(edited.find("\"noise\":1"), 9, "\"noise\":9");
  write(place().file, edited);
  EXPECT_THAT(refusal(), HasSubstr("checksum"));
  // A charge is cut out.
  const std::size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  write(place().file, whole.substr(0, second) + whole.substr(third));
  EXPECT_THAT(refusal(), HasSubstr("checksum"));
  write(place().file, whole);
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_THROW(BudgetLedger(place(), Adjacency::kReplace), DataError);
}

TEST_F(Ledger, OneProcessAtATime) {
  const BudgetLedger first(place(), Adjacency::kAddRemove);
  EXPECT_THAT(refusal(), HasSubstr("another process"));
}

TEST_F(Ledger, ChargesNothingThatCannotBeWritten) {
  BudgetLedger ledger({.file = place().file}, Adjacency::kAddRemove);
  EXPECT_THROW(ledger.charge({.noise = 0}, "no noise"), ConfigError);
  fs::remove(place().file);
  fs::create_directory(place().file);
  EXPECT_THROW(ledger.charge(kStep, "round"), WorldError);
  EXPECT_EQ(ledger.charges(), 0U);
}

}  // namespace
}  // namespace chorus::inline privacy

#include "infrastructure/checkpoint/checkpoint_writer.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/base/error.h"
#include "core/console/log.h"
#include "tests/support.h"

namespace chorus::inline checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Checkpoint model_after(std::int64_t round) {
  return {
      .round = round, .tensors = {{"model", at::full({1000}, static_cast<double>(round))}}, .numbers = {{"x", 0.5}}};
}

ClientState control_after(std::int64_t round) { return {{"control", at::full({64}, static_cast<double>(round))}}; }

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest() { set_log_level(LogLevel::kOff); }
  ~CheckpointWriterTest() override { set_log_level(LogLevel::kInfo); }

  /// True when `work` returns true in a process where no file may grow beyond 2,000 bytes.
  static bool on_a_full_disk(const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{2000, 2000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::_exit(work() ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  }

  TemporaryFolder folder_;
  CheckpointStore checkpoints_{folder_ / "checkpoints", 2};
  ClientStateStore clients_{folder_ / "clients"};
};

TEST_F(CheckpointWriterTest, LaterChangesDoNotAffectASavedCheckpoint) {
  CheckpointWriter writer(checkpoints_, clients_);
  EXPECT_FALSE(writer.wait().has_value());
  Checkpoint checkpoint = model_after(1);
  clients_.store(7, 1, control_after(1));
  writer.save(checkpoint);
  checkpoint.tensors.at("model").fill_(-1);
  clients_.store(7, 2, control_after(2));
  const auto written = writer.wait();
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->round, 1);
  EXPECT_GT(written->waited, 0);
  EXPECT_GT(written->writing, 0);
  EXPECT_FALSE(writer.wait().has_value()) << "each is reported once";

  const auto loaded = load_federation(checkpoints_, clients_);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(at::equal(loaded->tensors.at("model"), model_after(1).tensors.at("model")));
  EXPECT_EQ(loaded->numbers.at("x"), 0.5);
  EXPECT_TRUE(at::equal(clients_.load(7).at("control"), control_after(1).at("control")));
}

TEST_F(CheckpointWriterTest, OneIsWrittenAtATime) {
  CheckpointWriter writer(checkpoints_, clients_);
  writer.save(model_after(1));
  EXPECT_THROW(writer.save(model_after(2)), InternalError);
  for (std::int64_t round = 2; round < 6; ++round) {
    EXPECT_EQ(writer.wait()->round, round - 1);
    writer.save(model_after(round));
  }
  std::optional<WrittenCheckpoint> written;
  while (!written) written = writer.poll();
  EXPECT_EQ(written->round, 5);
  EXPECT_THAT(checkpoints_.rounds(), ElementsAre(4, 5));
}

TEST_F(CheckpointWriterTest, TheDestructorWaits) {
  { CheckpointWriter(checkpoints_, clients_).save(model_after(1)); }
  EXPECT_THAT(checkpoints_.rounds(), ElementsAre(1));
}

TEST_F(CheckpointWriterTest, AFullDiskIsReportedOnceAndKeepsTheLastCheckpoint) {
  {
    CheckpointWriter writer(checkpoints_, clients_);
    writer.save(model_after(1));
  }
  EXPECT_TRUE(on_a_full_disk([&] {
    CheckpointWriter writer(checkpoints_, clients_);
    writer.save(model_after(2));
    const std::string message = message_of<WorldError>([&] { (void)writer.wait(); });
    return message.find("tensors.safetensors: cannot be written: File too large") != std::string::npos &&
           !writer.wait().has_value();
  }));
  EXPECT_TRUE(on_a_full_disk([&] {
    CheckpointWriter writer(checkpoints_, clients_);
    writer.save(model_after(2));
    // By `poll`, as in a loop without a checkpoint due.
    const std::string message = message_of<WorldError>([&] {
      while (true) (void)writer.poll();
    });
    return message.find("File too large") != std::string::npos;
  }));
  EXPECT_TRUE(on_a_full_disk([&] {
    CheckpointWriter(checkpoints_, clients_).save(model_after(2));
    return true;  // never asked for: it is logged and the program continues
  }));
  EXPECT_EQ(checkpoints_.latest()->round, 1);
}

TEST_F(CheckpointWriterTest, AFullDiskKeepsClientStatesInMemory) {
  clients_.store(7, 1, {{"control", at::ones({1000})}});
  EXPECT_TRUE(on_a_full_disk([&] {
    CheckpointWriter writer(checkpoints_, clients_);
    writer.save(model_after(1));
    const std::string message = message_of<WorldError>([&] { (void)writer.wait(); });
    return message.find("7@1.safetensors") != std::string::npos && clients_.load(7).contains("control");
  }));
}

}  // namespace
}  // namespace chorus::inline checkpoint

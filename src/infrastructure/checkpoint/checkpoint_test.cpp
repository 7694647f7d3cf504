#include <ATen/Functions.h>
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
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "infrastructure/checkpoint/checkpoint_store.h"
#include "infrastructure/checkpoint/checkpoint_writer.h"
#include "infrastructure/checkpoint/client_state_store.h"
#include "tests/support.h"

namespace chorus::inline checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_checkpoint_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    set_log_level(LogLevel::kOff);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    set_log_level(LogLevel::kInfo);
  }

  fs::path folder_;
};

Checkpoint checkpoint_of(std::int64_t round) {
  const auto value = static_cast<double>(round);
  return {.round = round,
          .phase = round / 10,
          .tensors = {{"model", at::full({1000}, value)}, {"steps", at::full({3}, round, at::kLong)}},
          .texts = {{"best", "ünïcode \n"}},
          .numbers = {{"loss", 1 / value}, {"nan", std::nan("")}, {"inf", -HUGE_VAL}, {"zero", -0.0}}};
}

void flip_byte(const fs::path& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  std::ofstream(path, std::ios::trunc) << bytes;
}

TEST_F(CheckpointTest, RoundTripsBitForBit) {
  CheckpointStore store(folder_);
  EXPECT_FALSE(store.latest().has_value());
  Checkpoint saved = checkpoint_of(12);
  saved.tensors["strided"] = at::arange(12).view({3, 4}).t().to(at::kBFloat16);
  saved.tensors["empty"] = at::empty({0, 5});
  saved.tensors["scalar"] = at::full({}, 0.1, at::kDouble);
  store.save(saved);
  EXPECT_TRUE(fs::exists(folder_ / "round_000012" / "state.json"));
  const auto loaded = CheckpointStore(folder_).latest();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->round, 12);
  EXPECT_EQ(loaded->phase, 1);
  EXPECT_EQ(loaded->texts, saved.texts);
  ASSERT_EQ(loaded->tensors.size(), saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    EXPECT_EQ(loaded->tensors.at(name).dtype(), tensor.dtype());
    EXPECT_TRUE(at::equal(loaded->tensors.at(name), tensor)) << name;
  }
  EXPECT_EQ(loaded->numbers.at("loss"), 1.0 / 12);
  EXPECT_TRUE(std::isnan(loaded->numbers.at("nan")));
  EXPECT_EQ(loaded->numbers.at("inf"), -HUGE_VAL);
  EXPECT_TRUE(std::signbit(loaded->numbers.at("zero")));
}

TEST_F(CheckpointTest, KeepsTheLastFew) {
  CheckpointStore store(folder_, 2);
  for (const std::int64_t round : {1, 2, 9, 10, 1000000}) store.save(checkpoint_of(round));
  EXPECT_THAT(store.rounds(), ElementsAre(10, 1000000));
  EXPECT_EQ(store.latest()->round, 1000000);
  Checkpoint again = checkpoint_of(1000000);
  again.texts["best"] = "other";
  store.save(again);
  EXPECT_EQ(store.latest()->texts.at("best"), "other");
  EXPECT_THAT(store.rounds(), ElementsAre(10, 1000000));
}

TEST_F(CheckpointTest, FallsBackFromADamagedCheckpoint) {
  CheckpointStore store(folder_, 3);
  for (const std::int64_t round : {1, 2, 3}) store.save(checkpoint_of(round));
  const fs::path newest = folder_ / "round_000003";
  const std::string tensors = read_file(newest / "tensors.safetensors"), state = read_file(newest / "state.json");
  // Every kind of damage to either file, one at a time.
  for (std::size_t at = 0; at < state.size(); at += 7) {
    if (state.substr(at, 1) == "\n" || state.substr(at, 1) == " ") continue;  // whitespace in JSON carries no data
    flip_byte(newest / "state.json", at);
    std::int64_t round = 0;
    try {
      round = store.latest()->round;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("checkpoint of format"));
    }
    EXPECT_NE(round, 3) << at;
    std::ofstream(newest / "state.json", std::ios::trunc) << state;
  }
  for (std::size_t at = 0; at < tensors.size(); at += 111) {
    flip_byte(newest / "tensors.safetensors", at);
    EXPECT_EQ(store.latest()->round, 2) << at;
    std::ofstream(newest / "tensors.safetensors", std::ios::trunc) << tensors;
  }
  EXPECT_EQ(store.latest()->round, 3);
  fs::resize_file(newest / "tensors.safetensors", tensors.size() / 2);
  EXPECT_EQ(store.latest()->round, 2);
  fs::remove(newest / "tensors.safetensors");
  EXPECT_EQ(store.latest()->round, 2);
  fs::remove(newest / "state.json");
  EXPECT_EQ(store.latest()->round, 2);
  fs::rename(folder_ / "round_000002", folder_ / "round_000004");
  EXPECT_EQ(store.latest()->round, 1);
  store.discard_after(1);
  EXPECT_THAT(store.rounds(), ElementsAre(1));
  fs::resize_file(folder_ / "round_000001" / "state.json", 10);
  EXPECT_THAT(message_of<DataError>([&] { (void)store.latest(); }), HasSubstr("no checkpoint can be read"));
}

TEST_F(CheckpointTest, AnotherVersionIsNotSkipped) {
  CheckpointStore store(folder_, 3);
  for (const std::int64_t round : {1, 2}) store.save(checkpoint_of(round));
  std::ofstream(folder_ / "round_000002" / "state.json") << R"({"format": 7, "round": 2})";
  EXPECT_THAT(message_of<DataError>([&] { (void)store.latest(); }), HasSubstr("checkpoint of format 7"));
}

TEST_F(CheckpointTest, AFullDiskKeepsTheLastCheckpoint) {
  CheckpointStore store(folder_, 1);
  store.save(checkpoint_of(1));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2000, 2000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of<WorldError>([&] { store.save(checkpoint_of(2)); });
    ::_exit(message.find("tensors.safetensors: cannot be written: File too large") == std::string::npos ? 1 : 0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(store.rounds(), ElementsAre(1));
  EXPECT_EQ(store.latest()->round, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

ClientState state_of(std::int64_t client, std::int64_t round) {
  return {{"control", at::full({64}, static_cast<double>(client * 1000 + round))},
          {"steps", at::full({}, round, at::kLong)}};
}

bool is_state(const ClientState& state, std::int64_t client, std::int64_t round) {
  if (round == 0) return state.empty();
  const ClientState expected = state_of(client, round);
  return state.size() == 2 && at::equal(state.at("control"), expected.at("control")) &&
         at::equal(state.at("steps"), expected.at("steps"));
}

std::size_t files_in(const fs::path& folder) {
  std::size_t files = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder)) files += item.is_regular_file() ? 1 : 0;
  return files;
}

TEST_F(CheckpointTest, ClientsKeepTheirStateInMemoryOrOnDisk) {
  for (const std::size_t budget : {std::size_t{1} << 30, std::size_t{5000}, std::size_t{0}}) {
    fs::remove_all(folder_);
    ClientStateStore clients(folder_, {.memory_bytes = budget});
    for (std::int64_t round = 1; round <= 3; ++round) {
      for (std::int64_t client = 0; client < 50; client += round) {
        EXPECT_EQ(clients.load(client).empty(), round == 1);
        clients.store(client, round, state_of(client, round));
      }
      EXPECT_LE(clients.memory_bytes(), budget);
    }
    for (std::int64_t client = 0; client < 50; ++client)
      EXPECT_TRUE(is_state(clients.load(client), client, client % 3 == 0 ? 3 : client % 2 == 0 ? 2 : 1)) << client;
    EXPECT_TRUE(clients.load(50).empty());
    EXPECT_EQ(clients.clients(), 50U);
  }
}

TEST_F(CheckpointTest, StatesAreCopies) {
  ClientStateStore clients(folder_);
  at::Tensor cohort = at::ones({100, 8});
  clients.store(1, 1, {{"row", cohort[3]}});
  EXPECT_LT(clients.memory_bytes(), 2000U);
  cohort.fill_(5);
  clients.load(1).at("row").fill_(6);
  EXPECT_TRUE(at::equal(clients.load(1).at("row"), at::ones({8})));
  clients.store(1, 2, {});
  EXPECT_TRUE(clients.load(1).empty());
}

TEST_F(CheckpointTest, RestoreDropsStatesOutsideTheCheckpoint) {
  ClientStateManifest first;
  {
    ClientStateStore clients(folder_, {.memory_bytes = 600});
    for (std::int64_t client = 0; client < 10; ++client) clients.store(client, 1, state_of(client, 1));
    first = clients.commit(clients.freeze(1));
    EXPECT_EQ(first.size(), 10U);
    EXPECT_EQ(files_in(folder_), 10U);
    for (std::int64_t client = 0; client < 12; client += 2) clients.store(client, 2, state_of(client, 2));
    clients.restore(1, first);
    for (std::int64_t client = 0; client < 12; ++client)
      EXPECT_TRUE(is_state(clients.load(client), client, client < 10 ? 1 : 0));
    for (std::int64_t client = 0; client < 12; client += 2) clients.store(client, 2, state_of(client, 2));
  }
  // Killed here: parts of round 2 are on disk and must be ignored.
  ClientStateStore clients(folder_);
  EXPECT_TRUE(clients.load(3).empty()) << "nothing counts before a checkpoint says so";
  clients.restore(1, first);
  for (std::int64_t client = 0; client < 12; ++client)
    EXPECT_TRUE(is_state(clients.load(client), client, client < 10 ? 1 : 0));
  EXPECT_THROW(clients.store(3, 1, {}), InternalError);
  clients.store(3, 3, state_of(3, 3));
  EXPECT_THROW(clients.commit(clients.freeze(2)), InternalError);
  clients.commit(clients.freeze(3));
  clients.prune(1);
  EXPECT_EQ(files_in(folder_), 11U);
  clients.prune(3);
  EXPECT_EQ(files_in(folder_), 10U);
  clients.restore(0, {});
  EXPECT_EQ(files_in(folder_), 0U);
  EXPECT_EQ(clients.clients(), 0U);
}

TEST_F(CheckpointTest, PruneKeepsWhatEachKeptCheckpointNeeds) {
  // Checkpoints of rounds 1 to 4; client 0 takes part in all of them, client 1 in rounds 1 and 3, client 2 in round 1.
  ClientStateStore clients(folder_);
  for (std::int64_t round = 1; round <= 4; ++round) {
    for (std::int64_t client = 0; client < 3; ++client) {
      if (client == 0 || (client == 1 && round % 2 == 1) || round == 1)
        clients.store(client, round, state_of(client, round));
    }
    clients.commit(clients.freeze(round));
  }
  const auto rounds_of = [&](std::int64_t client) {
    std::vector<std::int64_t> rounds;
    for (std::int64_t round = 1; round <= 4; ++round) {
      if (fs::exists(folder_ / "0" / "0" / (std::to_string(client) + "@" + std::to_string(round) + ".safetensors")))
        rounds.push_back(round);
    }
    return rounds;
  };
  clients.prune(2);
  EXPECT_THAT(rounds_of(0), ElementsAre(2, 3, 4));
  EXPECT_THAT(rounds_of(1), ElementsAre(1, 3));
  EXPECT_THAT(rounds_of(2), ElementsAre(1));
  clients.prune(3);
  EXPECT_THAT(rounds_of(0), ElementsAre(3, 4));
  EXPECT_THAT(rounds_of(1), ElementsAre(3));
  clients.prune(9);
  EXPECT_THAT(rounds_of(0), ElementsAre(4));
  EXPECT_THAT(rounds_of(2), ElementsAre(1));
}

TEST_F(CheckpointTest, ClientsContinueWhileTheirStatesAreWritten) {
  // In memory, or spilled at once: a state of round 2 is on disk before one of round 1.
  for (const std::size_t budget : {std::size_t{1} << 30, std::size_t{0}}) {
    fs::remove_all(folder_);
    ClientStateStore clients(folder_, {.memory_bytes = budget});
    ClientStateManifest first;
    for (std::int64_t round = 1; round <= 3; ++round) {
      for (const std::int64_t client : {0, 1}) clients.store(client, round, state_of(client, round));
      const ClientStateSnapshot snapshot = clients.freeze(round);
      EXPECT_THROW(clients.store(0, round, {}), InternalError) << "the round is over";
      clients.store(0, round + 1, state_of(0, round + 1));
      clients.store(2, round + 1, state_of(2, round + 1));
      const ClientStateManifest manifest = clients.commit(snapshot);
      ASSERT_EQ(manifest.size(), round == 1 ? 2U : 3U);
      for (const ClientStateFile& file : manifest) EXPECT_EQ(file.round, round);
      clients.verify(manifest);
      EXPECT_TRUE(is_state(clients.load(0), 0, round + 1));
      EXPECT_TRUE(is_state(clients.load(1), 1, round));
      clients.prune(round - 1);
      if (round > 1) clients.verify(first);
      clients.prune(round);
      first = manifest;
      EXPECT_LE(clients.memory_bytes(), budget);
    }
    ClientStateStore again(folder_);
    again.restore(3, first);
    for (const std::int64_t client : {0, 1, 2}) EXPECT_TRUE(is_state(again.load(client), client, 3)) << client;
    EXPECT_EQ(files_in(folder_), 3U);
  }
}

TEST_F(CheckpointTest, AStateThatIsBeingWrittenIsNotEvicted) {
  const std::size_t one = 2000;  // more than a state takes
  ClientStateStore clients(folder_, {.memory_bytes = 2 * one});
  clients.store(0, 1, state_of(0, 1));
  clients.store(1, 1, state_of(1, 1));
  const ClientStateSnapshot snapshot = clients.freeze(1);
  for (std::int64_t client = 2; client < 10; ++client) clients.store(client, 2, state_of(client, 2));
  EXPECT_GE(files_in(folder_), 6U) << "those of round 2 are";
  EXPECT_FALSE(fs::exists(folder_ / "0" / "0" / "0@1.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "0" / "0" / "1@1.safetensors"));
  EXPECT_EQ(clients.commit(snapshot).size(), 2U);
  for (std::int64_t client = 0; client < 10; ++client)
    EXPECT_TRUE(is_state(clients.load(client), client, client < 2 ? 1 : 2)) << client;
}

TEST_F(CheckpointTest, ManyClientsLieInManyFolders) {
  ClientStateStore clients(folder_, {.memory_bytes = 0});
  for (const std::int64_t client : {0, 999, 1000, 12345, 99999, 2000001}) clients.store(client, 7, state_of(client, 7));
  const ClientStateManifest manifest = clients.commit(clients.freeze(7));
  EXPECT_TRUE(fs::exists(folder_ / "0" / "12" / "12345@7.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "2" / "0" / "2000001@7.safetensors"));
  std::ofstream(folder_ / "0" / "12" / "12345@9.safetensors") << "cut";
  std::ofstream(folder_ / "0" / "12" / "12346@3.safetensors") << "of a client that no checkpoint knows";
  std::ofstream(folder_ / "0" / "12" / "notes.txt") << "not ours";
  std::ofstream(folder_ / "0" / "12" / ".12345@8.safetensors.1.0.tmp") << "left by a killed process";
  ClientStateStore again(folder_);
  again.restore(8, manifest);
  EXPECT_EQ(again.clients(), 6U);
  EXPECT_FALSE(fs::exists(folder_ / "0" / "12" / ".12345@8.safetensors.1.0.tmp"));
  EXPECT_FALSE(fs::exists(folder_ / "0" / "12" / "12345@9.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "0" / "12" / "12346@3.safetensors"));
  EXPECT_TRUE(is_state(again.load(12345), 12345, 7));
  EXPECT_TRUE(again.load(12346).empty());
  EXPECT_TRUE(fs::exists(folder_ / "0" / "12" / "notes.txt"));
}

TEST_F(CheckpointTest, WorkersShareTheStore) {
  ClientStateStore clients(folder_, {.memory_bytes = 3000});
  for (std::int64_t round = 1; round <= 3; ++round) {
    std::vector<std::thread> workers;
    for (std::int64_t worker = 0; worker < 4; ++worker) {
      workers.emplace_back([&, worker] {
        for (std::int64_t client = worker; client < 40; client += 4) {
          if (is_state(clients.load(client), client, round - 1)) clients.store(client, round, state_of(client, round));
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    clients.commit(clients.freeze(round));
    clients.prune(round);
  }
  for (std::int64_t client = 0; client < 40; ++client) EXPECT_TRUE(is_state(clients.load(client), client, 3)) << client;
  EXPECT_EQ(files_in(folder_), 40U);
}

bool takes_part(std::int64_t client, std::int64_t round) { return (client * 7 + round * 3) % 5 < 2; }

/// A federation that only stores states: 30 clients, a checkpoint every other round, written during the next.
[[noreturn]] void train_until_killed(const fs::path& folder) {
  CheckpointStore checkpoints(folder / "checkpoints", 2);
  ClientStateStore clients(folder / "clients", {.memory_bytes = 8000});
  const auto start = load_federation(checkpoints, clients);
  CheckpointWriter writer(checkpoints, clients);
  for (std::int64_t round = start ? start->round + 1 : 1;; ++round) {
    for (std::int64_t client = 0; client < 30; ++client) {
      if (takes_part(client, round)) clients.store(client, round, state_of(client, round));
    }
    if (round % 2 != 0) continue;
    (void)writer.wait();
    writer.save(checkpoint_of(round));
  }
}

TEST_F(CheckpointTest, SurvivesSigkillAtAnyMoment) {
  RandomStream random(StreamKey{.seed = 4, .purpose = "kill"});
  std::int64_t last = 0;
  for (int attempt = 0; attempt < 40; ++attempt) {
    const pid_t child = ::fork();
    if (child == 0) train_until_killed(folder_);
    // On a busy machine the first checkpoint takes longer.
    const auto most = static_cast<std::uint64_t>(last == 0 ? 60000 * (attempt + 1) : 60000);
    ::usleep(static_cast<useconds_t>(2000 + random.below(most)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    CheckpointStore checkpoints(folder_ / "checkpoints", 2);
    ClientStateStore clients(folder_ / "clients");
    const auto found = load_federation(checkpoints, clients);
    const std::int64_t round = found ? found->round : 0;
    ASSERT_GE(round, last);
    last = round;
    if (found) {
      ASSERT_TRUE(at::equal(found->tensors.at("model"), checkpoint_of(round).tensors.at("model")));
    }
    for (std::int64_t client = 0; client < 30; ++client) {
      std::int64_t newest = round;
      while (newest > 0 && !takes_part(client, newest)) --newest;
      ASSERT_TRUE(is_state(clients.load(client), client, newest)) << client << " after round " << round;
    }
  }
  EXPECT_GT(last, 0) << "the machine is too slow for this test to say anything";
  EXPECT_LE(files_in(folder_ / "clients"), 120U) << "old states pile up";
}

}  // namespace
}  // namespace chorus::inline checkpoint

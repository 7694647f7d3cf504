#include "infrastructure/checkpoint/client_state_store.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

ClientState round_state(std::int64_t client, std::int64_t round) {
  return {{"control", at::full({32}, static_cast<double>(100 * client + round))}};
}

/// Two checkpoints, of rounds 4 and 8; five clients, each with a state in both.
class ManifestTest : public testing::Test {
 protected:
  ManifestTest() {
    set_log_level(LogLevel::kOff);
    CheckpointStore checkpoints(folder_ / "checkpoints", 2);
    ClientStateStore clients(folder_ / "clients", {.memory_bytes = 0});
    for (const std::int64_t round : {4, 8}) {
      for (std::int64_t client = 0; client < 5; ++client) clients.store(client, round, round_state(client, round));
      save_federation(checkpoints, clients, {.round = round, .tensors = {{"model", at::full({3}, round)}}},
                      clients.freeze(round));
    }
  }
  ~ManifestTest() override { set_log_level(LogLevel::kInfo); }

  fs::path file(std::int64_t client, std::int64_t round) const {
    return folder_ / "clients" / "0" / "0" / fmt::format("{}@{}.safetensors", client, round);
  }
  void change(const fs::path& path, const std::function<void(std::string&)>& edit) const {
    std::string bytes = read_file(path);
    edit(bytes);
    std::ofstream(path, std::ios::trunc | std::ios::binary) << bytes;
  }
  /// The round that is loaded, after checking all clients' states; 0 when there is none.
  std::int64_t loaded_round() const {
    CheckpointStore checkpoints(folder_ / "checkpoints", 2);
    ClientStateStore clients(folder_ / "clients");
    const auto found = load_federation(checkpoints, clients);
    if (!found) return 0;
    EXPECT_EQ(found->tensors.count("clients"), 0U) << "the manifest is no part of what the caller saved";
    for (std::int64_t client = 0; client < 5; ++client) {
      const ClientState state = clients.load(client);
      EXPECT_TRUE(at::equal(state.at("control"), round_state(client, found->round).at("control"))) << client;
    }
    return found->round;
  }

  TemporaryFolder folder_;
};

TEST_F(ManifestTest, AWholeFolderIsLoaded) { EXPECT_EQ(loaded_round(), 8); }

TEST_F(ManifestTest, AMissingStateFallsBack) {
  fs::remove(file(3, 8));
  EXPECT_EQ(loaded_round(), 4);
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints" / "damaged_000008"));
  EXPECT_FALSE(fs::exists(file(0, 8))) << "states after the checkpoint go";
  EXPECT_EQ(loaded_round(), 4);
}

TEST_F(ManifestTest, AnyFlippedByteFallsBack) {
  const std::string whole = read_file(file(2, 8));
  CheckpointStore checkpoints(folder_ / "checkpoints", 2);
  const ClientStateStore clients(folder_ / "clients");
  const ClientStateManifest manifest = to_manifest(checkpoints.latest()->tensors.at("clients"));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    change(file(2, 8), [&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 0x10); });
    EXPECT_THAT(message_of<DataError>([&] { clients.verify(manifest); }),
                AllOf(HasSubstr("2@8.safetensors"), HasSubstr("client 2 after round 8"), HasSubstr("checksum")))
        << at;
    std::ofstream(file(2, 8), std::ios::trunc | std::ios::binary) << whole;
  }
  clients.verify(manifest);
  change(file(2, 8), [](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); });
  EXPECT_EQ(loaded_round(), 4);
}

TEST_F(ManifestTest, ATruncatedOrLongerStateFallsBack) {
  for (const bool longer : {false, true}) {
    SCOPED_TRACE(longer);
    CheckpointStore checkpoints(folder_ / "checkpoints", 2);
    const ClientStateStore clients(folder_ / "clients");
    const ClientStateManifest manifest = to_manifest(checkpoints.latest()->tensors.at("clients"));
    const std::string whole = read_file(file(1, 8));
    change(file(1, 8), [&](std::string& bytes) { bytes.resize(longer ? bytes.size() + 1 : bytes.size() / 2); });
    EXPECT_THAT(message_of<DataError>([&] { clients.verify(manifest); }),
                HasSubstr(fmt::format("instead of {}", whole.size())));
    std::ofstream(file(1, 8), std::ios::trunc | std::ios::binary) << whole;
  }
  fs::resize_file(file(1, 8), 0);
  EXPECT_EQ(loaded_round(), 4);
}

TEST_F(ManifestTest, TwoSwappedStatesFallBack) {
  // Both are well-formed and of the same size: only a checksum reveals it.
  fs::rename(file(0, 8), folder_ / "aside");
  fs::rename(file(1, 8), file(0, 8));
  fs::rename(folder_ / "aside", file(1, 8));
  EXPECT_EQ(loaded_round(), 4);
}

TEST_F(ManifestTest, AnOlderStateUnderANewerNameFallsBack) {
  fs::copy_file(file(4, 4), file(4, 8), fs::copy_options::overwrite_existing);
  EXPECT_EQ(loaded_round(), 4);
}

TEST_F(ManifestTest, WithoutAWholeCheckpointNothingIsTouched) {
  fs::remove(file(3, 8));
  fs::remove(file(2, 4));
  const std::string message = message_of<DataError>([&] { (void)loaded_round(); });
  EXPECT_THAT(message, AllOf(HasSubstr("2@4.safetensors"), HasSubstr("is missing"), HasSubstr("start the run again")));
  EXPECT_TRUE(fs::exists(file(0, 8)));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints" / "round_000008"));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints" / "round_000004"));
}

TEST_F(ManifestTest, DamageDuringARunIsReportedAtTheNextLoad) {
  CheckpointStore checkpoints(folder_ / "checkpoints", 2);
  ClientStateStore clients(folder_ / "clients");
  ASSERT_EQ(load_federation(checkpoints, clients)->round, 8);
  change(file(0, 8), [](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 4); });
  EXPECT_THAT(message_of<DataError>([&] { (void)clients.load(0); }),
              AllOf(HasSubstr("0@8.safetensors"), HasSubstr("checksum differs"), HasSubstr("chorus resume")));
  EXPECT_FALSE(clients.load(1).empty()) << "others are unaffected";
}

TEST_F(ManifestTest, AFolderOfTheOldFormatIsRefusedWithTheReason) {
  // Format 1 had no manifest: it is refused, not skipped as damaged.
  change(folder_ / "checkpoints" / "round_000008" / "state.json",
         [](std::string& text) { text.replace(text.find("\"format\": 3"), 11, "\"format\": 1"); });
  EXPECT_THAT(message_of<DataError>([&] { (void)loaded_round(); }),
              AllOf(HasSubstr("format 1"), HasSubstr("use the version of Chorus that wrote it")));
  EXPECT_TRUE(fs::exists(file(0, 8)));
}

TEST_F(ManifestTest, ACheckpointWithoutAManifestIsDamaged) {
  CheckpointStore(folder_ / "checkpoints", 3).save({.round = 9, .tensors = {{"model", at::zeros({3})}}});
  EXPECT_EQ(loaded_round(), 8);
}

TEST_F(ManifestTest, TheManifestsNameIsReserved) {
  CheckpointStore checkpoints(folder_ / "checkpoints", 2);
  ClientStateStore clients(folder_ / "clients");
  EXPECT_THROW(save_federation(checkpoints, clients, {.round = 12, .tensors = {{"clients", at::zeros({1})}}},
                               clients.freeze(12)),
               InternalError);
}

TEST(ClientStateManifest, RoundTripsThroughATensor) {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  const ClientStateManifest manifest{{0, 1, 2, {top, 1}}, {7, 0, 0, {0, top - 5}}, {std::int64_t{1} << 40, 3, 9, {}}};
  const at::Tensor tensor = to_tensor(manifest);
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(to_manifest(tensor), manifest);
  EXPECT_TRUE(to_manifest(to_tensor({})).empty());
}

TEST(ClientStateManifest, ADamagedTensorIsRefused) {
  const auto row = [](std::int64_t client, std::int64_t round, std::int64_t bytes) {
    return at::tensor(std::vector<std::int64_t>{client, round, bytes, 1, 1}, at::kLong).view({1, 5});
  };
  const std::pair<const char*, at::Tensor> cases[] = {{"type", at::zeros({1, 5})},
                                                      {"dimensions", at::zeros({5}, at::kLong)},
                                                      {"columns", at::zeros({1, 4}, at::kLong)},
                                                      {"negative client", row(-1, 0, 0)},
                                                      {"negative round", row(0, -1, 0)},
                                                      {"negative size", row(0, 0, -1)},
                                                      {"a client twice", at::cat({row(3, 0, 0), row(3, 1, 0)})},
                                                      {"falling", at::cat({row(3, 0, 0), row(2, 0, 0)})}};
  for (const auto& [what, tensor] : cases) EXPECT_THROW((void)to_manifest(tensor), DataError) << what;
}

TEST(ClientStateManifest, HasOneRowForEachClientAndOnlyTheNewest) {
  const TemporaryFolder folder;
  ClientStateStore clients(folder / "clients");
  for (const std::int64_t client : {9, 2, 5}) clients.store(client, 1, round_state(client, 1));
  EXPECT_EQ(clients.commit(clients.freeze(1)).size(), 3U);
  clients.store(5, 2, round_state(5, 2));
  clients.store(5, 2, round_state(5, 20));  // the last state of a round counts
  const ClientStateManifest manifest = clients.commit(clients.freeze(2));
  ASSERT_EQ(manifest.size(), 3U);
  const std::int64_t expected[][2] = {{2, 1}, {5, 2}, {9, 1}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(manifest[i].client, expected[i][0]);
    EXPECT_EQ(manifest[i].round, expected[i][1]);
    const fs::path path =
        folder / "clients" / "0" / "0" / fmt::format("{}@{}.safetensors", manifest[i].client, manifest[i].round);
    EXPECT_EQ(static_cast<std::uintmax_t>(manifest[i].bytes), fs::file_size(path));
    EXPECT_EQ(manifest[i].checksum, fingerprint(read_file(path)));
  }
  clients.verify(manifest);
}

// A round with 10 of 100,000 clients writes 10 files and one list of all clients.
TEST(ClientStateManifest, ACheckpointWritesChangedStatesAndOneList) {
  constexpr std::int64_t kClients = 100'000;
  const TemporaryFolder folder;
  ClientStateStore clients(folder / "clients");
  ClientStateManifest before(kClients);
  for (std::int64_t client = 0; client < kClients; ++client) {
    before[static_cast<std::size_t>(client)] = {client, 1, 128, {static_cast<std::uint64_t>(client), 7}};
  }
  clients.restore(1, before);
  EXPECT_EQ(clients.clients(), static_cast<std::size_t>(kClients));
  for (std::int64_t i = 0; i < 10; ++i) clients.store(i * 9'999, 2, round_state(i, 2));

  const auto begin = std::chrono::steady_clock::now();
  const ClientStateManifest manifest = clients.commit(clients.freeze(2));
  const at::Tensor tensor = to_tensor(manifest);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 2) << "work per pair of clients would take minutes";
  RecordProperty("commit_seconds", std::to_string(seconds.count()));

  ASSERT_EQ(manifest.size(), static_cast<std::size_t>(kClients));
  EXPECT_EQ(tensor.numel(), 5 * kClients);
  std::int64_t files = 0, changed = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder.path())) files += item.is_regular_file() ? 1 : 0;
  for (std::size_t i = 0; i < manifest.size(); ++i) {
    EXPECT_EQ(manifest[i].client, static_cast<std::int64_t>(i));
    changed += manifest[i] == before[i] ? 0 : 1;
  }
  EXPECT_EQ(files, 10);
  EXPECT_EQ(changed, 10);
}

TEST(ClientStateManifest, ManyFilesAreVerifiedByAllThreads) {
  const TemporaryFolder folder;
  ClientStateStore clients(folder / "clients", {.memory_bytes = 0});
  for (std::int64_t client = 0; client < 200; ++client) clients.store(client, 1, round_state(client, 1));
  const ClientStateManifest manifest = clients.commit(clients.freeze(1));
  clients.verify(manifest);
  for (const std::int64_t client : {0, 1, 7, 64, 198, 199}) {
    const fs::path path = folder / "clients" / "0" / "0" / fmt::format("{}@1.safetensors", client);
    fs::rename(path, folder / "aside");
    EXPECT_THAT(message_of<DataError>([&] { clients.verify(manifest); }), HasSubstr(path.string())) << client;
    fs::rename(folder / "aside", path);
  }
}

}  // namespace
}  // namespace chorus::inline checkpoint

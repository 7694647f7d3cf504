#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/fingerprint.h"
#include "core/ports/workbench.h"
#include "infrastructure/checkpoint/checkpoint_store.h"

namespace chorus::inline checkpoint {

/// One client's state on disk, as a checkpoint records it.
struct ClientStateFile {
  std::int64_t client = 0;
  std::int64_t round = 0;  ///< the round in which it was stored
  std::int64_t bytes = 0;  ///< of the file
  Fingerprint checksum{};  ///< of its bytes

  bool operator==(const ClientStateFile&) const = default;
};

/// All clients' states after a round, ascending by client. A checkpoint stores it as an int64 tensor [clients, 5]:
/// client, round, bytes, and the two halves of the checksum (4 MB for 100,000 clients).
using ClientStateManifest = std::vector<ClientStateFile>;

at::Tensor to_tensor(const ClientStateManifest& manifest);
/// DataError for a tensor that `to_tensor` does not produce.
ClientStateManifest to_manifest(const at::Tensor& tensor);

/// The clients' states after a round, to be written.
struct ClientStateSnapshot {
  struct Unwritten {
    std::int64_t client = 0;
    std::int64_t round = 0;
    ClientState state{};  ///< shares the store's tensors, which never change
  };
  std::int64_t round = 0;
  std::vector<Unwritten> unwritten{};
  ClientStateManifest written{};  ///< the other clients, in any order
};

/// Bytes of states, by where their tensors are.
struct HeldBytes {
  std::size_t host = 0, gpu = 0;

  HeldBytes& operator+=(const HeldBytes& more) {
    host += more.host;
    gpu += more.gpu;
    return *this;
  }
  HeldBytes& operator-=(const HeldBytes& less) {
    host -= less.host;
    gpu -= less.gpu;
    return *this;
  }
};

/// What clients keep between rounds: control variates, optimizer states, error feedback, personal models. States are in
/// memory up to a budget; beyond it the least recently used ones are on disk. A tensor that a client keeps on a GPU
/// stays there, up to another budget, so that the next round does not wait for a copy. Crash-safe because no file that
/// a checkpoint needs is ever overwritten: a client's state after round r is `folder`/0/12/12345@17.safetensors (client
/// 12345, round 17; a thousand clients per folder). The manifest in a checkpoint lists its files.
///
///     ClientStateStore clients(run.clients(), {.memory_bytes = 1 << 30});
///     auto state = clients.load(7);                        // empty: client 7 has none
///     clients.store(7, round, {{"control", control}});     // copied
///     const auto snapshot = clients.freeze(round);         // after the round
///     save_federation(checkpoints, clients, checkpoint, snapshot);
///
/// Thread-safe; only one thread may use a client at a time. Rounds are sequential: nothing of round r + 1 is stored
/// before `freeze(r)`, and `freeze(r + 1)` comes after the checkpoint of round r is written. In between, clients train
/// while their states of round r are written.
class ClientStateStore {
 public:
  struct Options {
    std::size_t memory_bytes = std::size_t{1} << 30;
    std::size_t gpu_bytes = 0;
  };

  /// Creates the folder if needed. Call restore before the first load: until then no client has a state.
  explicit ClientStateStore(std::filesystem::path folder);
  ClientStateStore(std::filesystem::path folder, Options options);

  /// A copy of the newest state: on the CPU if it was on disk, else where it was. Empty when there is none. DataError
  /// when its file is missing or damaged.
  ClientState load(std::int64_t client);
  /// Replaces the client's state; an empty one is stored, too. WorldError when it must be spilled and the disk is full.
  void store(std::int64_t client, std::int64_t round, const ClientState& state);

  /// All states after `round`, without writing or copying any.
  ClientStateSnapshot freeze(std::int64_t round);
  /// Writes the states of the snapshot that are not yet on disk, and syncs. The result belongs in the checkpoint of
  /// that round, which is saved next. WorldError when the disk is full: the states stay in memory.
  ClientStateManifest commit(const ClientStateSnapshot& snapshot);
  /// Removes files that no checkpoint from `oldest_checkpoint` on needs. Call it after the checkpoint is saved.
  void prune(std::int64_t oldest_checkpoint);

  /// Reads every file of the manifest. DataError for the first that is missing or has another size or checksum. Changes
  /// nothing.
  void verify(const ClientStateManifest& manifest) const;
  /// Sets every client to its state in the manifest of the checkpoint of `round`; without a checkpoint, 0 and an empty
  /// manifest. Removes files that neither this checkpoint nor an earlier one needs.
  void restore(std::int64_t round, const ClientStateManifest& manifest);

  std::size_t clients() const;       ///< number of clients with a state
  std::size_t memory_bytes() const;  ///< of the host, held now

 private:
  struct Entry {
    std::vector<std::int64_t> older;        // rounds on disk before `newest`, ascending
    std::optional<ClientStateFile> newest;  // on disk
    std::optional<ClientState> held;
    std::int64_t held_round = 0;
    HeldBytes bytes = {};
    bool dirty = false;  // in memory and not on disk
    std::list<std::int64_t>::iterator recent{};
  };

  std::filesystem::path path_of(std::int64_t client, std::int64_t round) const;
  ClientStateManifest files_on_disk() const;
  bool frozen(const Entry& entry) const { return entry.dirty && entry.held_round <= frozen_; }
  void hold(std::int64_t client, Entry& entry, std::int64_t round, ClientState state);
  void release(Entry& entry);
  ClientStateFile write(std::int64_t client, std::int64_t round, const ClientState& state) const;
  void add_file(Entry& entry, const ClientStateFile& file);
  void shrink();
  void sync() const;

  std::filesystem::path folder_;
  Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, Entry> entries_;
  std::list<std::int64_t> recent_;      // clients with a state in memory, least recently used first
  std::vector<std::int64_t> with_old_;  // clients that got a second file since the last prune
  std::int64_t frozen_ = -1;            // states of this round and before never change
  bool unsynced_ = false;  // files were written since the last commit, which syncs the file system once for all of them
  HeldBytes held_;
  HeldBytes replaced_;  // frozen states that were replaced and are still being written
};

/// Saves a checkpoint with the clients' states and their manifest, in an order that is safe to kill at any moment:
/// states, checkpoint, then pruning.
void save_federation(CheckpointStore& checkpoints, ClientStateStore& clients, Checkpoint checkpoint,
                     const ClientStateSnapshot& snapshot);

/// The inverse: the newest intact checkpoint whose clients' states are intact too; everything newer is removed. Damaged
/// ones are skipped with a warning, as in CheckpointStore::latest. Nothing (and no client state) when there is none.
std::optional<Checkpoint> load_federation(CheckpointStore& checkpoints, ClientStateStore& clients);

}  // namespace chorus::inline checkpoint

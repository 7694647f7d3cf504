#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "application/models/model.h"
#include "core/base/fingerprint.h"
#include "core/files/spill_file.h"

namespace chorus::inline models {

/// Frozen bottom layers always give the same output for a sequence, so it is computed once and reused across epochs and
/// rounds (Cai et al. 2023, section 4). The key is a sequence's tokens: clients with the same text share an entry, and
/// no notification is needed when data or clients change.
///
/// Each sequence goes through the bottom layers alone and without dropout, whether it is cached or not. So a run is
/// bit-identical with `Mode::kRecompute` and with a cache that holds all, some or none of the sequences.
///
///     ActivationCache cache({.mode = ActivationCache::Mode::kKeep}, run_folder / "activations");
///     cache.fill(model, params, batch);            // sets batch.bottom and batch.bottom_layers
///     model.forward(params, batch, dropout);
///
/// Outputs of one depth are useless at another. When the tuned depth changes, the outputs of the least recently used
/// depths are dropped (two are kept, for AdaFL's groups). Thread-safe.
class ActivationCache {
 public:
  enum class Mode {
    kOff,        ///< layers are computed in batches, with dropout
    kKeep,       ///< in memory, then on disk
    kRecompute,  ///< the same values, computed each time
  };
  enum class Store { kFloat32, kFloat16 };

  struct Config {
    Mode mode = Mode::kOff;
    std::int64_t memory = 2048;     ///< MiB
    std::int64_t disk = 16384;      ///< MiB, beyond memory
    Store store = Store::kFloat32;  ///< float16: half the memory, rounded

    void describe(ConfigVisitor& visitor);
  };

  struct Stats {
    std::uint64_t hits = 0, misses = 0, damaged = 0;
    std::uint64_t memory_bytes = 0, disk_bytes = 0;
  };

  /// `folder`: where entries that do not fit into memory go; empty: they are not kept.
  explicit ActivationCache(const Config& config, std::filesystem::path folder = {});
  ~ActivationCache();

  bool on() const { return config_.mode != Mode::kOff; }
  /// Sets batch.bottom, unless the cache is off or none of the model's bottom layers is frozen.
  void fill(const Model& model, const Params& params, Batch& batch);

  Stats stats() const;

 private:
  struct Entry {
    at::Tensor kept;  // [L, H]; undefined: on disk
    SpillFile::Place place = {};
    std::int64_t tokens = 0;
  };
  struct KeyHash {
    std::size_t operator()(const Fingerprint& key) const { return static_cast<std::size_t>(key.low); }
  };
  struct Level {
    std::unordered_map<Fingerprint, Entry, KeyHash> entries;
    std::unique_ptr<SpillFile> spill;
    std::uint64_t memory = 0;
    std::uint64_t used = 0;  // time of last use
    bool warned = false;
  };

  Level& level(int layers);
  at::Tensor find(int layers, const Fingerprint& key, at::Device device);
  void keep(int layers, const Fingerprint& key, const at::Tensor& value);

  Config config_;
  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::map<int, Level> levels_;
  std::uint64_t clock_ = 0;
  Stats stats_;
};

/// How many layers from the bottom, embeddings included, have no trainable parameter; at most model.cuts().
int frozen_layers(const Model& model);

}  // namespace chorus::inline models

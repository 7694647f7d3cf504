#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "infrastructure/transport/grpc/grpc_transport.h"
#include "infrastructure/transport/grpc/session.h"

namespace chorus::inline transport_grpc {

class Stream;

/// A peer of a server, over all of its streams.
struct Session {
  Session(PeerId number, const GrpcConfig& config)
      : id(number), outbox(config.chunk_bytes()), assembler(config.frame_bytes(), config.spool_folder()) {}
  PeerId id;
  std::string key, identity;
  Outbox outbox;
  Assembler assembler;
  std::uint64_t received = 0;      ///< the assembler's newest frame
  bool partial = false;            ///< it has a part of the next one
  bool held = false;               ///< its last stream was cut while the server made it wait
  bool busy = false, cut = false;  ///< a thread uses the assembler without the mutex; the stream was lost meanwhile
  Receipts receipts = {};          ///< of arrived frames
  Stream* stream = nullptr;        ///< null: lost at time `lost`
  std::chrono::steady_clock::time_point lost = {};
  FramePace pace = {};       ///< of the next frame
  std::size_t unread = 0;    ///< frames among the server's events
  std::size_t reserved = 0;  ///< bytes of the large frame being assembled

  /// Whether this chunk begins a frame that needs space and has not arrived yet.
  bool begins_large(const ChunkHeader& chunk, const GrpcConfig& config) const;
  /// Adds a chunk. Gives up `lock` meanwhile, where there is one: then the session is busy.
  Result<std::optional<ArrivedFrame>> assemble(const ChunkHeader& chunk, std::span<const std::string_view> data,
                                               std::unique_lock<std::mutex>* lock);
  std::string name() const { return identity.empty() ? "a peer" : identity; }
  /// Why a peer that is connected sends its frame too slowly; empty: it does not.
  std::string slowness(const GrpcConfig& config) const { return partial ? pace.trouble(config.pace()) : ""; }
  /// The connection is lost: the incomplete frame will come again from its start.
  void forget_partial();
};

/// The sessions of a server.
class Sessions {
 public:
  /// Null where there is none.
  std::shared_ptr<Session> find(PeerId id) const { return in(all_, id); }
  std::shared_ptr<Session> with_key(const std::string& key) const { return in(by_key_, key); }
  std::shared_ptr<Session> of(const std::string& identity) const { return in(by_identity_, identity); }
  /// `identity` may be empty: then nobody finds it by that.
  std::shared_ptr<Session> add(const std::string& key, const std::string& identity, const GrpcConfig& config);
  /// False: it was removed before.
  bool remove(const Session& session);
  const std::map<PeerId, std::shared_ptr<Session>>& all() const { return all_; }

 private:
  template <typename Map, typename Key>
  static std::shared_ptr<Session> in(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
  }
  std::map<PeerId, std::shared_ptr<Session>> all_;
  std::map<std::string, std::shared_ptr<Session>> by_key_, by_identity_;
  PeerId last_ = 0;
};

/// The space of a server for large frames that are being assembled or unread: in memory, and in files.
class FrameSpace {
 public:
  explicit FrameSpace(const GrpcConfig& config) : config_(config) {}
  /// Whether it must wait for others; a single frame always fits.
  bool full_for(std::size_t frame) const {
    const std::size_t taken = in_file(frame) ? files_ : memory_;
    const double most = (in_file(frame) ? config_.spool : config_.inbox) * (1U << 20U);
    return taken > 0 && static_cast<double>(taken + frame) > most;
  }
  void take(std::size_t frame) { counter(frame) += frame; }
  void give_back(std::size_t frame) { counter(frame) -= frame; }

 private:
  bool in_file(std::size_t frame) const { return config_.spool > 0 && frame > kLargestInMemory; }
  std::size_t& counter(std::size_t frame) { return in_file(frame) ? files_ : memory_; }

  const GrpcConfig& config_;
  std::size_t memory_ = 0, files_ = 0;
};

}  // namespace chorus::inline transport_grpc

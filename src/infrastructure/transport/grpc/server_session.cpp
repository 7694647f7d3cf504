#include "infrastructure/transport/grpc/server_session.h"

#include <utility>

#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_grpc {

bool Session::begins_large(const ChunkHeader& chunk, const GrpcConfig& config) const {
  return chunk.size > kSmallFrameBytes && chunk.size <= config.frame_bytes() && !partial && chunk.sequence > received;
}

Result<std::optional<ArrivedFrame>> Session::assemble(const ChunkHeader& chunk, std::span<const std::string_view> data,
                                                      std::unique_lock<std::mutex>* lock) {
  busy = true;
  if (lock != nullptr) lock->unlock();
  const bool begins = !assembler.partial();
  auto frame = assembler.add(chunk, data);
  if (lock != nullptr) lock->lock();
  busy = false;
  if (std::exchange(cut, false)) assembler.restart();
  if (begins) pace.begin();
  if (frame.ok() && chunk.sequence > received) {
    for (const std::string_view piece : data) pace.add(piece.size());
  }
  received = assembler.received();
  partial = assembler.partial();
  return frame;
}

void Session::forget_partial() {
  partial = false;
  if (busy) {
    cut = true;
  } else {
    assembler.restart();
  }
}

std::shared_ptr<Session> Sessions::add(const std::string& key, const std::string& identity, const GrpcConfig& config) {
  auto session = std::make_shared<Session>(++last_, config);
  session->key = key;
  session->identity = identity;
  all_[session->id] = session;
  by_key_[key] = session;
  if (!identity.empty()) by_identity_[identity] = session;
  return session;
}

bool Sessions::remove(const Session& session) {
  const std::string key = session.key, identity = session.identity;  // the object may end with its last reference
  if (all_.erase(session.id) == 0) return false;
  by_key_.erase(key);
  by_identity_.erase(identity);
  return true;
}

}  // namespace chorus::inline transport_grpc

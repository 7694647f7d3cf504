#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/ports/transport.h"
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"

namespace chorus::inline transport_mailbox {

inline constexpr std::size_t kMostFramesUnread = 16;  ///< of one client, by the server
inline constexpr std::size_t kMostBytesUnread = 4U << 20U;

/// A client as the server's end knows it. Guarded by the server's mutex, but for `sending` and `sent`.
struct MailPeer {
  MailPeer(PeerId its_id, const Letter& opening, std::uint64_t its_session, std::size_t limit)
      : id(its_id), address(opening.from), identity(opening.identity), session(its_session), gatherer(limit) {}
  PeerId id;
  std::string address, identity;
  std::uint64_t session;
  std::mutex sending;      ///< frames go out one after the other
  std::uint64_t sent = 0;  ///< frames
  FrameGatherer gatherer;
  std::size_t unread = 0, unread_bytes = 0;  ///< frames among the server's events
  std::uint64_t read = 0;                    ///< frames
  std::uint64_t large = 0;                   ///< bytes of the large frame that is being gathered; 0: none
  bool may_go_on = false;                    ///< there is room for it
  std::chrono::steady_clock::time_point active = std::chrono::steady_clock::now();

  std::string name() const { return identity.empty() ? "a peer" : identity; }
  /// What is wrong with a chunk of an honest client's frame; empty: nothing.
  std::string trouble_with(const Post& chunk) const;
};

/// The room of a server for large frames that are being gathered or unread. A single one always fits.
class MailRoom {
 public:
  explicit MailRoom(std::size_t most) : most_(most) {}
  void take(std::size_t bytes) { taken_ += bytes; }
  void give_back(std::size_t bytes) { taken_ -= bytes; }
  /// Adds a peer to those that wait for room.
  void queue(std::shared_ptr<MailPeer> peer) { waiting_.push_back(std::move(peer)); }
  void forget(const MailPeer& peer);
  /// The next peer that may go on, for which room was taken; null: nobody.
  std::shared_ptr<MailPeer> next();

 private:
  std::size_t most_, taken_ = 0;
  std::deque<std::shared_ptr<MailPeer>> waiting_;
};

}  // namespace chorus::inline transport_mailbox

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/ports/transport.h"
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"
#include "infrastructure/transport/pace/frame_pace.h"

namespace chorus::inline transport_mailbox {

inline constexpr std::size_t kMostFramesUnread = 16;  ///< of one client, by the server
inline constexpr std::size_t kMostBytesUnread = 4U << 20U;

struct MailPeer;

/// The room of a server for large frames that are being gathered or unread. A single one always fits. Everything here
/// is guarded by the server's mutex.
class MailRoom {
 public:
  /// Room for one frame; it is free again when this is cleared or destroyed.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Place& operator=(Place&& other) noexcept {
      if (this == &other) return *this;
      clear();
      room_ = std::exchange(other.room_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Place() { clear(); }
    explicit operator bool() const { return room_ != nullptr; }
    void clear() {
      if (room_ != nullptr) room_->taken_ -= bytes_;
      room_ = nullptr;
    }

   private:
    friend class MailRoom;
    Place(MailRoom& room, std::size_t bytes) : room_(&room), bytes_(bytes) { room.taken_ += bytes; }
    MailRoom* room_ = nullptr;
    std::size_t bytes_ = 0;
  };

  explicit MailRoom(std::size_t most) : most_(most) {}
  /// For a frame that came without waiting.
  Place take(std::size_t bytes) { return {*this, bytes}; }
  /// Adds a peer to those that wait for room.
  void queue(std::shared_ptr<MailPeer> peer) { waiting_.push_back(std::move(peer)); }
  /// The peer is gone: it waits no more, and its place is free.
  void forget(MailPeer& peer);
  /// The next peer that may go on, which has a place now; null: nobody.
  std::shared_ptr<MailPeer> next();

 private:
  std::size_t most_, taken_ = 0;
  std::deque<std::shared_ptr<MailPeer>> waiting_;
};

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
  std::uint64_t large = 0;                   ///< bytes of the frame of several letters that has begun; 0: none
  MailRoom::Place place = {};                ///< of that frame, once it may go on
  FramePace pace = {};                       ///< of that frame, from then on

  std::string name() const { return identity.empty() ? "a peer" : identity; }
  /// What is wrong with a chunk of an honest client's frame; empty: nothing.
  std::string trouble_with(const Post& chunk) const;
};

}  // namespace chorus::inline transport_mailbox

#include "infrastructure/transport/mailbox/mail_peer.h"

#include <fmt/format.h>

namespace chorus::inline transport_mailbox {

std::string MailPeer::trouble_with(const Post& chunk) const {
  if (gatherer.begins(chunk) && (unread >= kMostFramesUnread || unread_bytes >= kMostBytesUnread)) {
    return fmt::format("it sent more than the server reads ahead: {} frames, or {} MiB before the last one",
                       kMostFramesUnread, kMostBytesUnread >> 20U);
  }
  if (large > 0 && !place && gatherer.continues(chunk)) {
    return "it went on with a large frame before the server had room for it";
  }
  return "";
}

void MailRoom::forget(MailPeer& peer) {
  peer.place.clear();
  std::erase_if(waiting_, [&](const auto& each) { return each.get() == &peer; });
}

std::shared_ptr<MailPeer> MailRoom::next() {
  if (waiting_.empty() || (taken_ > 0 && taken_ + waiting_.front()->large > most_)) return nullptr;
  std::shared_ptr<MailPeer> peer = std::move(waiting_.front());
  waiting_.pop_front();
  peer->place = take(peer->large);
  peer->pace.begin();
  return peer;
}

}  // namespace chorus::inline transport_mailbox

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/ports/transport.h"

namespace chorus::inline transport_mailbox {

/// A letter that has arrived.
struct Letter {
  std::string from;      ///< an address to answer to
  std::string identity;  ///< the name that the system vouches for; empty: none
  std::string bytes;
};

/// One party's access to a system that delivers letters of up to a few hundred KiB in order, at least once, such as
/// MPI. What a transport needs besides (frames, joining and leaving, back-pressure) is in this folder, once for all.
class Mailbox {
 public:
  using Receive = std::function<void(Letter)>;
  virtual ~Mailbox() = default;
  /// From now on letters go to `receive`, on a thread of the mailbox, one at a time.
  virtual void open(Receive receive) = 0;
  /// Blocks while too much is under way. Letters to one address arrive in order. Failures show as silence.
  virtual void post(const std::string& to, std::string bytes) = 0;
  /// Where the server's mailbox is.
  virtual std::string server() const = 0;
  /// The other end has answered: what went wrong before is over.
  virtual void answered() {}
};

struct MailConfig {
  std::size_t chunk = 256U << 10U;         ///< bytes of a letter
  std::size_t frame_limit = 2047U << 20U;  ///< a larger frame is refused before anything is allocated
  double patience = 0;                     ///< seconds a client waits for a server to answer; 0: for ever
  std::size_t room = 256U << 20U;          ///< bytes of large frames that a server gathers at once; at least one frame
  double stall = 60;                       ///< seconds a client may pause within a frame
  double slowest = 16U << 10U;             ///< bytes per second of a frame, on average after `stall`; 0: any
  bool checks_data = true;                 ///< false: the system that delivers letters finds damage to their data
  std::size_t peers = 10'000;              ///< a server refuses more
  /// Server: why the owner of this name must not be connected (asked all the time); empty: it may.
  std::function<std::string(const std::string& name)> refusal = {};
};

/// The two ends of a transport over mailboxes. A client has at most 16 frames, and 4 MiB before the last one, that the
/// server has not read; a server drops one that sends more, and tells it why.
std::unique_ptr<ServerTransport> make_mail_server(std::unique_ptr<Mailbox> mailbox, const MailConfig& config);
std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config);

/// The letter with which a client leaves, for a system that can send it when the client has vanished (a last will).
/// `session` is the client's: give it to its mailbox and to `make_mail_client`.
std::string farewell(std::uint64_t session);
std::uint64_t new_session();
std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config,
                                                  std::uint64_t session);

}  // namespace chorus::inline transport_mailbox

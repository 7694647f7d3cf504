#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/config/registry.h"
#include "core/files/file_memory.h"
#include "core/ports/frame_bytes.h"

namespace chorus::inline ports {

/// The far end of one connection of a server, unique while the server runs. A peer is a process: it may host one client
/// or a thousand.
using PeerId = std::uint64_t;

/// Something that happened at the server's end.
struct TransportEvent {
  enum class Kind { kJoined, kFrame, kLeft };
  Kind kind = Kind::kFrame;
  PeerId peer = 0;
  std::string frame = {};     ///< of kFrame: one whole message, as the peer sent it
  std::string identity = {};  ///< of kJoined: the name the transport vouches for (a certificate's); empty: none
  std::shared_ptr<const FileMemory> file = {};  ///< of kFrame: where a large message lies; `frame` is empty then

  std::string_view bytes() const { return file ? file->bytes() : std::string_view(frame); }
};

/// The server's end: moves whole frames of bytes to and from its peers, in order per peer, each at most once. It does
/// not read them. `send` and `receive` may be called from different threads.
class ServerTransport {
 public:
  virtual ~ServerTransport() = default;
  /// Hands a frame over; one buffer may go to many peers. `more`: another one for this peer follows at once, so it may
  /// wait for that. False: the peer is gone.
  virtual bool send(PeerId peer, std::shared_ptr<const FrameBytes> frame, bool more = false) = 0;
  /// The next event, or nothing after so many seconds (empty: waits forever) or once the transport is closed.
  virtual std::optional<TransportEvent> receive(std::optional<double> seconds) = 0;
};

/// A client's end. The same rules.
class ClientTransport {
 public:
  virtual ~ClientTransport() = default;
  /// Blocks while too many frames are in flight. False: the server is gone.
  virtual bool send(FrameBytes frame) = 0;
  virtual std::optional<std::string> receive(std::optional<double> seconds) = 0;
  /// False once the server is gone and everything it sent has been read.
  virtual bool connected() const = 0;
  /// Why this server will not take this client at all (a revoked certificate, another version); empty: it may.
  virtual std::string refusal() const { return ""; }
};

/// A way for bytes to travel, by name. Adding one is a folder and a Registration; tests/contract/transport_test.cpp
/// says what it must do.
class Transport {
 public:
  static constexpr std::string_view kKind = "transport";
  virtual ~Transport() = default;
  virtual std::unique_ptr<ServerTransport> listen() = 0;
  virtual std::unique_ptr<ClientTransport> connect() = 0;

  /// Of a transport between processes that are started together (MPI): which one this is, and how many there are. The
  /// server is at rank 0.
  struct Place {
    int rank = 0, size = 1;
    int beside = 1;  ///< of these processes on this machine, this one included
    int local = 0;   ///< which of those this one is
  };
  virtual Place place() const { return {}; }
};

using Transports = Registry<Transport>;

}  // namespace chorus::inline ports

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/config/registry.h"
#include "core/ports/federation.h"
#include "core/ports/transport.h"

namespace chorus::inline ports {

/// Both halves of a federation in one process, with a transport between them.
struct LinkInput {
  Transport& transport;
  Federation& clients;              ///< who answers at the far end; borrowed
  std::uint64_t run = 0;            ///< stamped on every request, as is the layout
  std::uint64_t layout = 0;         ///< fingerprint of what trains
  std::function<bool()> stop = {};  ///< true: give up (Ctrl-C)
  std::size_t others = 0;           ///< clients that other processes host; the server waits for them, too
  std::size_t sharing = 1;          ///< processes that each host all of `clients`, and divide every cohort
  bool states_sizes = true;         ///< clients say how many examples they have
  bool serves = true;  ///< false: the server is in another process; the object lives until that server is gone
};

/// A federation whose requests and replies really travel as bytes. By name, because a build without the wire format has
/// none.
class LinkedFederation : public Federation {
 public:
  static constexpr std::string_view kKind = "link";
};

using LinkedFederations = Registry<LinkedFederation, const LinkInput&>;

}  // namespace chorus::inline ports

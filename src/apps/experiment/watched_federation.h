#pragma once

#include <functional>
#include <utility>

#include "core/ports/forwarding_federation.h"

namespace chorus::inline experiment {

/// The same clients, and somebody who counts their replies: for progress within a round. Borrows the clients.
///
///     WatchedFederation watched(clients, [](std::size_t done, std::size_t asked) { show(done, asked); });
class WatchedFederation final : public ForwardingFederation {
 public:
  /// Called when clients are asked, and after each reply, by the thread that reads it.
  using Watcher = std::function<void(std::size_t done, std::size_t asked)>;

  WatchedFederation(Federation& clients, Watcher watcher)
      : ForwardingFederation(clients), watcher_(std::move(watcher)) {}

  Replies ask(std::span<const ClientId> cohort, Request request) override;

 private:
  Watcher watcher_;
};

}  // namespace chorus::inline experiment

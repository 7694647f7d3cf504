#pragma once

#include <functional>
#include <utility>

#include "core/ports/federation.h"

namespace chorus::inline experiment {

/// The same clients, and somebody who counts their replies: for progress within a round. Borrows the clients.
///
///     WatchedFederation watched(clients, [](std::size_t done, std::size_t asked) { show(done, asked); });
class WatchedFederation final : public Federation {
 public:
  /// Called when clients are asked, and after each reply, by the thread that reads it.
  using Watcher = std::function<void(std::size_t done, std::size_t asked)>;

  WatchedFederation(Federation& clients, Watcher watcher) : clients_(clients), watcher_(std::move(watcher)) {}

  const Roster& roster() const override { return clients_.roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override { clients_.end_session(session); }
  Traffic traffic() const override { return clients_.traffic(); }
  bool real_time() const override { return clients_.real_time(); }
  void wait(double seconds) override { clients_.wait(seconds); }

 private:
  Federation& clients_;
  Watcher watcher_;
};

}  // namespace chorus::inline experiment

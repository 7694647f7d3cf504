#include "apps/experiment/watched_federation.h"

#include <memory>

namespace chorus::inline experiment {

Replies WatchedFederation::ask(std::span<const ClientId> cohort, Request request) {
  watcher_(0, cohort.size());
  auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
  auto next = [replies, watcher = watcher_, asked = cohort.size(), done = std::size_t{0}]() mutable {
    std::optional<Reply> reply = replies->next();
    if (reply) watcher(++done, asked);
    return reply;
  };
  return Replies(std::move(next), [replies] { return replies->ready(); });
}

}  // namespace chorus::inline experiment

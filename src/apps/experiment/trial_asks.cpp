#include "apps/experiment/trial_asks.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace chorus::inline experiment {

TrialWork TrialAsk::of(ClientId client) const {
  if (const auto found = clients.find(client); found != clients.end()) return found->second;
  TrialWork mean;
  for (const auto& [id, work] : clients) {
    mean.batches += work.batches;
    mean.texts += work.texts;
    mean.down += work.down;
    mean.up += work.up;
  }
  const double count = std::max(static_cast<double>(clients.size()), 1.0);
  return {mean.batches / count, mean.texts / count, mean.down / count, mean.up / count};
}

Replies RecordedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (request.procedure.ends_with("evaluate")) return clients_.ask(cohort, std::move(request));
  const std::uint64_t round = request.round;
  const std::size_t number = asks_[round].size();
  asks_[round].push_back({request.procedure});
  auto replies = std::make_shared<Replies>(clients_.ask(cohort, std::move(request)));
  auto next = [replies, &asks = asks_, round, number]() {
    std::optional<Reply> reply = replies->next();
    if (reply && reply->ok()) {
      asks.at(round).at(number).clients[reply->client] = {
          reply->body.number("load", reply->body.number("batches", 0)), reply->body.number("load_texts", 0),
          static_cast<double>(reply->bytes_down), static_cast<double>(reply->bytes_up)};
    }
    return reply;
  };
  return Replies(std::move(next), [replies] { return replies->ready(); });
}

}  // namespace chorus::inline experiment

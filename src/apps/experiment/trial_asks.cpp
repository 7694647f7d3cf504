#include "apps/experiment/trial_asks.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace chorus::inline experiment {
namespace {

std::optional<double> batches_of(const Message& body) {
  for (const char* key : {"load", "batches"}) {
    if (body.numbers.contains(key)) return body.number(key, 0);
  }
  return std::nullopt;
}

}  // namespace

TrialWork TrialAsk::of(ClientId client) const {
  if (const auto found = clients.find(client); found != clients.end()) return found->second;
  TrialWork mean;
  const double count = std::max(static_cast<double>(clients.size()), 1.0);
  for (const auto& [id, work] : clients) {
    if (work.batches) mean.batches = mean.batches.value_or(0) + *work.batches / count;
    mean.texts += work.texts / count;
    mean.down += work.down / count;
    mean.up += work.up / count;
  }
  return mean;
}

Replies RecordedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (request.procedure.ends_with("evaluate")) return inner().ask(cohort, std::move(request));
  const std::uint64_t round = request.round;
  const std::size_t number = asks_[round].size();
  asks_[round].push_back({request.procedure});
  auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
  auto next = [replies, &asks = asks_, round, number]() {
    std::optional<Reply> reply = replies->next();
    if (reply && reply->ok()) {
      asks.at(round).at(number).clients[reply->client] = {batches_of(reply->body), reply->body.number("load_texts", 0),
                                                          static_cast<double>(reply->bytes_down),
                                                          static_cast<double>(reply->bytes_up)};
    }
    return reply;
  };
  return Replies(std::move(next), [replies] { return replies->ready(); });
}

}  // namespace chorus::inline experiment

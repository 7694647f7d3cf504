#include "algorithm/compression/filtered_federation.h"

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace chorus::inline compression {

FilteredFederation::FilteredFederation(const FilterEndInput& input, Federation& inner)
    : ForwardingFederation(inner), gate_(input, FilterEnd::Side::kServer) {}

Replies FilteredFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (request.round != round_) {
    round_ = request.round;
    asks_ = 0;
    down_totals_ = {};
    up_totals_.clear();
  }
  request.ask = asks_++;
  GateMoment moment{request.procedure, read_variant(request.body), request.round, request.ask};
  moment.memory = [this]() -> ClientState& { return memory_; };
  down_totals_ += gate_.send(request.body, moment);
  moment.memory = {};  // no feedback for what only one client receives: the server would need a memory per client
  for (std::size_t i = 0; i < request.own.size(); ++i) {
    moment.client = cohort[i] + std::uint64_t{1};
    down_totals_ += gate_.send(request.own[i], moment);
  }
  const auto procedure = std::make_shared<const std::string>(request.procedure);
  moment.procedure = *procedure;
  const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
  const auto next = [this, replies, procedure, moment]() -> std::optional<Reply> {
    std::optional<Reply> reply = replies->next();
    if (!reply || !reply->ok()) return reply;
    try {
      GateMoment of_client = moment;
      of_client.client = reply->client;
      up_totals_[{moment.round, moment.ask, reply->slot}] = gate_.receive(reply->body, of_client);
    } catch (const DataError& error) {
      reply->failure = error.what();
      reply->body = {};
    }
    return reply;
  };
  return Replies(next, [replies] { return replies->ready(); });
}

std::map<std::string, double> FilteredFederation::numbers() const {
  std::map<std::string, double> result;
  if (!gate_.receives().empty()) {
    GateTotals up;
    for (const auto& entry : up_totals_) up += entry.second;
    result.insert({{"up_ratio", up.ratio()}, {"up_error", up.error()}});
  }
  if (!gate_.sends().empty()) {
    result.insert({{"down_ratio", down_totals_.ratio()}, {"down_error", down_totals_.error()}});
  }
  return result;
}

}  // namespace chorus::inline compression

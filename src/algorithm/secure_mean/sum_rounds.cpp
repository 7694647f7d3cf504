#include "algorithm/secure_mean/sum_rounds.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithm/secure_mean/secure_mean.h"
#include "algorithm/secure_mean/secure_procedures.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {

SumRounds::SumRounds(Session& session, const AggregationInput& input, SumHost& host, Alive alive)
    : session_(session),
      input_(input),
      host_(host),
      alive_(std::move(alive)),
      reports_(input.cohort.size()),
      on_accept_(input.cohort.size()) {}

std::optional<std::string> SumRounds::run(Request first, const std::function<std::string()>& check_sum, bool last) {
  round_ = first.round;
  Ask ask{{}, std::move(first)};
  for (std::size_t slot = 0; slot < input_.cohort.size(); ++slot) {
    reports_[slot].failure = "it did not reply";
    if (alive_(input_.cohort[slot].client, 0)) ask.slots.push_back(slot);
  }
  for (std::size_t step = 0;; ++step) {
    std::vector<ClientId> cohort;
    for (const std::size_t slot : ask.slots) cohort.push_back(input_.cohort[slot].client);
    std::optional<Replies> replies;
    if (!cohort.empty()) replies.emplace(session_.ask(cohort, std::move(ask.request)));
    std::vector<Cost> costs(cohort.size());
    for (std::size_t i = 0; i < cohort.size(); ++i) {
      std::optional<Reply> reply = replies->next();
      if (!reply) break;
      costs[reply->slot] = reply->cost;
      deliver(*reply, ask.slots.at(reply->slot));
    }
    charge(ask.slots, costs);
    auto out = host_.close();
    std::string fault = out.ok() ? "" : out.failure().message;
    if (fault.empty() && host_.done()) fault = check_sum();
    if (fault.empty() && host_.done() && last) {
      for (std::size_t slot = 0; slot < on_accept_.size(); ++slot) {
        const auto& in_sum = host_.survivors();
        const bool used = std::binary_search(in_sum.begin(), in_sum.end(), input_.cohort[slot].client);
        if (used && on_accept_[slot]) on_accept_[slot]();
      }
    }
    // Only now: a remote federation ends an ask when its clients have kept what was accepted.
    if (replies) replies->next();
    if (!fault.empty()) return fault;
    if (host_.done()) return std::nullopt;
    ask = next_ask(out.value(), step + 1);
  }
}

SumRounds::Ask SumRounds::next_ask(const SumHost::Outgoing& out, std::size_t step) const {
  Ask ask{{}, {.procedure = kNextProcedure, .round = round_}};
  bool same = true;
  std::vector<std::shared_ptr<const Bytes>> messages;
  for (std::size_t slot = 0; slot < input_.cohort.size(); ++slot) {
    const ClientId client = input_.cohort[slot].client;
    const auto found = out.find(client);
    if (found == out.end() || !alive_(client, step)) continue;
    ask.slots.push_back(slot);
    messages.push_back(found->second);
    same = same && found->second == messages.front();
  }
  if (messages.empty()) return ask;
  if (same) {
    ask.request.body.tensors[kMessageField] = tensor_of(*messages.front());
    return ask;
  }
  for (const auto& message : messages) {
    ask.request.own.emplace_back();
    ask.request.own.back().tensors[kMessageField] = tensor_of(*message);
  }
  return ask;
}

void SumRounds::deliver(Reply& reply, std::size_t slot) {
  ClientReport& report = reports_[slot];
  report.left_out = reply.left_out;
  if (!reply.ok()) {
    report.failure = reply.failure;
    return;
  }
  try {
    const auto accepted = host_.receive(reply.client, bytes_of(reply.body, kMessageField));
    report.failure = accepted.ok() ? "" : accepted.failure().message;
    if (accepted.ok()) on_accept_[slot] = std::move(reply.on_accept);
  } catch (const DataError& error) {
    report.failure = error.what();
  }
}

// The steps of a sum come one after the other: each lasts until its last reply is there.
void SumRounds::charge(const std::vector<std::size_t>& slots, const std::vector<Cost>& costs) {
  double seconds = 0;
  for (const Cost& cost : costs) seconds = std::max(seconds, cost.seconds);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Cost& sum = reports_[slots[i]].cost;
    sum.seconds += seconds;
    sum.compute_seconds += costs[i].compute_seconds;
    sum.network_seconds += costs[i].network_seconds;
    sum.joules += costs[i].joules;
    sum.bytes_down += costs[i].bytes_down;
    sum.bytes_up += costs[i].bytes_up;
    sum.memory = std::max(sum.memory, costs[i].memory);
  }
}

std::vector<ClientReport> SumRounds::take_reports(const std::optional<std::string>& abandoned) {
  for (std::size_t slot = 0; slot < reports_.size(); ++slot) {
    ClientReport& report = reports_[slot];
    const ClientId client = input_.cohort[slot].client;
    const auto& in_sum = host_.survivors();
    const bool used = !abandoned && std::binary_search(in_sum.begin(), in_sum.end(), client);
    if (used) {
      report.failure.clear();
      report.left_out = false;
    } else if (!alive_(client, 64)) {
      report.failure = "it vanished (simulated)";
      report.left_out = true;
    } else if (report.failure.empty()) {
      report.failure = kAbandoned + abandoned.value_or("its input is missing");
    }
  }
  return std::move(reports_);
}

}  // namespace chorus::inline secure_mean

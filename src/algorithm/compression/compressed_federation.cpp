#include "algorithm/compression/compressed_federation.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace chorus {
namespace {

// Tells clients how often the round has asked before, so that no two of their answers draw the same numbers.
constexpr const char* kAsk = "filters.ask";

MessageFiltersInput of_direction(const CompressionInput& input, bool up) {
  MessageFiltersInput result;
  result.filters = up ? input.config.up : input.config.down;
  result.purpose = up ? "filters/up" : "filters/down";
  result.seed = input.seed;
  result.blocks = input.blocks;
  result.variants = input.variants;
  if (!up && input.reference.defined()) result.reference = input.reference.detach().cpu().contiguous();
  return result;
}

std::size_t largest_tensor(const Message& message) {
  std::size_t largest = std::size_t{1} << 24;
  for (const auto& entry : message.tensors) {
    largest = std::max(largest, static_cast<std::size_t>(entry.second.numel()));
  }
  return largest;
}

void forget_other_variants(ClientState& memory, const std::string& procedure, const Variant& variant) {
  const std::string mine = memory_place(procedure, variant), whole = memory_place(procedure, {});
  const std::string others = whole.substr(0, whole.size() - 1) + "@";
  std::erase_if(memory, [&](const auto& entry) {
    return !entry.first.starts_with(mine) && (entry.first.starts_with(whole) || entry.first.starts_with(others));
  });
}

void add(FilterTotals& sum, const FilterTotals& more) {
  sum.raw += more.raw;
  sum.packed += more.packed;
  sum.norm2 += more.norm2;
  sum.error2 += more.error2;
}

}  // namespace

CompressedFederation::CompressedFederation(const CompressionInput& input, Federation& inner)
    : inner_(inner), up_(of_direction(input, true)), down_(of_direction(input, false)), device_(input.device) {}

Replies CompressedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (request.round != round_) {
    round_ = request.round;
    asks_ = 0;
    down_totals_ = {};
    up_totals_.clear();
  }
  // What comes back is about as large as what goes out.
  const std::size_t most = largest_tensor(request.body);
  const Variant variant = read_variant(request.body);
  add(down_totals_, down_.pack(request.body, {request.procedure, variant, request.round, 0, asks_, &memory_}));
  if (!up_.chain().empty()) request.body.numbers[kAsk] = static_cast<double>(asks_);
  const std::uint64_t number = asks_++;
  const auto replies = std::make_shared<Replies>(inner_.ask(cohort, std::move(request)));
  return Replies([this, replies, most, number]() -> std::optional<Reply> {
    std::optional<Reply> reply = replies->next();
    if (!reply || !reply->ok()) return reply;
    try {
      up_totals_[{number, reply->slot}] = up_.unpack(reply->body, most, device_);
    } catch (const DataError& error) {
      reply->failure = error.what();
      reply->body = {};
    }
    return reply;
  });
}

std::map<std::string, double> CompressedFederation::numbers() const {
  std::map<std::string, double> result;
  if (!up_.chain().empty()) {
    FilterTotals up;
    for (const auto& entry : up_totals_) add(up, entry.second);
    result.insert({{"up_ratio", up.ratio()}, {"up_error", up.error()}});
  }
  if (!down_.chain().empty()) {
    result.insert({{"down_ratio", down_totals_.ratio()}, {"down_error", down_totals_.error()}});
  }
  return result;
}

ClientFilters::ClientFilters(const CompressionInput& input)
    : up_(of_direction(input, true)),
      down_(of_direction(input, false)),
      device_(input.device),
      most_numbers_(input.most_numbers) {}

Request ClientFilters::open(Request request) const {
  down_.unpack(request.body, most_numbers_, device_);
  return request;
}

void ClientFilters::close(const Request& request, Workbench& bench, std::span<Answer> answers) const {
  if (up_.chain().empty()) return;
  const auto ask = static_cast<std::uint64_t>(std::clamp(request.body.number(kAsk, 0), 0.0, 9e15));
  const Variant variant = read_variant(request.body);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Answer& answer = answers[i];
    if (!answer.failure.empty()) {
      answer.body = {};  // nobody reads it
      continue;
    }
    MessageMoment moment{request.procedure, variant, request.round, bench.clients()[i], ask};
    const bool packs = std::any_of(answer.body.tensors.begin(), answer.body.tensors.end(), [](const auto& entry) {
      return entry.second.numel() >= MessageFilters::kLeastFiltered;
    });
    if (packs && up_.chain().remembers()) {
      moment.memory = &bench.state(i);
      forget_other_variants(*moment.memory, request.procedure, variant);
    }
    try {
      up_.pack(answer.body, moment);
    } catch (const DataError& error) {
      answer.failure = error.what();
      answer.body = {};
    }
  }
}

}  // namespace chorus

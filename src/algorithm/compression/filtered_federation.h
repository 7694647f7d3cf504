#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "algorithm/compression/filter_end.h"
#include "core/ports/federation_layer.h"
#include "core/ports/forwarding_federation.h"

namespace chorus::inline compression {

/// The server's end of a filtered federation. Algorithms that ask through it are unaware of filters, and the inner
/// federation counts the bytes that really travel as traffic. A reply that cannot be unpacked fails that client.
///
///     FilteredFederation federation(input, inner);       // the clients' end has FilterEnd::Side::kClient
///     for (Reply& reply : federation.ask(cohort, request)) ...
class FilteredFederation : public ForwardingFederation, public FederationLayer {
 public:
  FilteredFederation(const FilterEndInput& input, Federation& inner);

  Replies ask(std::span<const ClientId> cohort, Request request) override;
  Federation* below() override { return gate_.receives().empty() && gate_.sends().empty() ? &inner() : nullptr; }

  /// Of the latest round asked: up_ratio, up_error, down_ratio, down_error, where there are filters.
  std::map<std::string, double> numbers() const;

  /// State of the server's own filters, for checkpoints.
  const ClientState& state() const { return memory_; }
  void restore(ClientState state) { memory_ = std::move(state); }

 private:
  FilterEnd gate_;
  ClientState memory_;
  std::uint64_t round_ = 0, asks_ = 0;
  GateTotals down_totals_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::size_t>, GateTotals>
      up_totals_;  // by round, ask and slot: fixes the order of the sum
};

}  // namespace chorus::inline compression

#pragma once

#include <map>
#include <memory>
#include <string>

#include "algorithm/compression/compression_config.h"
#include "algorithm/compression/message_filters.h"
#include "core/ports/client_gate.h"
#include "core/ports/federation.h"

namespace chorus {

/// What both sides of a compressed federation are made of.
struct CompressionInput {
  CompressionConfig config = {};
  std::uint64_t seed = 0;
  std::function<std::vector<FilterBlock>(std::int64_t numbers)> blocks = {};  ///< see MessageFiltersInput
  const Variants* variants = nullptr;                                         ///< see MessageFiltersInput
  at::Tensor reference = {};                        ///< see MessageFiltersInput; kept on the CPU
  at::Device device = at::kCPU;                     ///< where unpacked tensors go
  std::size_t most_numbers = std::size_t{1} << 24;  ///< a client takes in a tensor
};

/// The server's side: a federation around another, whose messages it packs and unpacks, so that whoever asks knows
/// nothing of it. What the other counts as traffic are then the bytes that travel. A reply that cannot be unpacked
/// becomes a failure of that client.
///
///     CompressedFederation federation(input, transport);       // the far end has a ClientFilters
///     for (Reply& reply : federation.ask(cohort, request)) ...
class CompressedFederation : public Federation {
 public:
  CompressedFederation(const CompressionInput& input, Federation& inner);

  std::span<const double> sizes() const override { return inner_.sizes(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  Traffic traffic() const override { return inner_.traffic(); }

  /// Of the newest round that was asked in: up_ratio, up_error, down_ratio, down_error, where there are filters.
  std::map<std::string, double> numbers() const;

  /// What the server's own filters remember, for checkpoints.
  const ClientState& state() const { return memory_; }
  void restore(ClientState state) { memory_ = std::move(state); }

 private:
  Federation& inner_;
  MessageFilters up_, down_;
  at::Device device_;
  ClientState memory_;
  std::uint64_t round_ = 0, asks_ = 0;
  FilterTotals down_totals_;
  std::map<std::pair<std::uint64_t, std::size_t>, FilterTotals>
      up_totals_;  // by ask and slot, so the sum has one order
};

/// The client's side: what it packs is remembered in the client's state. What was remembered about another variant of
/// what trains is forgotten.
class ClientFilters : public ClientGate {
 public:
  explicit ClientFilters(const CompressionInput& input);

  Request open(Request request) const override;
  void close(const Request& request, Workbench& bench, std::span<Answer> answers) const override;

 private:
  MessageFilters up_, down_;
  at::Device device_;
  std::size_t most_numbers_;
};

}  // namespace chorus

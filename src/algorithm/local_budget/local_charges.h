#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "algorithm/privacy/budget_ledger.h"
#include "core/base/privacy_report.h"
#include "core/config/registry.h"
#include "core/ports/filter.h"
#include "core/ports/forwarding_federation.h"

namespace chorus::inline local_budget {

/// What one reply costs through these filters (local_gaussian, local_laplace); empty without any of them.
std::optional<Mechanism> release_of(std::span<const Choice<Filters>> filters);

/// Charges the clients' budgets before they are asked for a reply that local noise protects: `local.ledger` in their
/// folder. Everything else is the federation inside. Questions about test examples ("evaluate") have no noise and are
/// not charged; they are about other examples. Neither is "distill/learn", to which clients reply with counts and
/// seconds only.
class LocalCharges : public ForwardingFederation {
 public:
  struct Input {
    Federation& clients;  ///< borrowed
    Mechanism release;    ///< of one reply
    double delta = 1e-5;
    BudgetLedger::Place place;
  };
  explicit LocalCharges(const Input& input);

  Replies ask(std::span<const ClientId> cohort, Request request) override;

  /// Of the ledger, to be kept elsewhere.
  std::string mark() const { return ledger_.mark(); }
  /// Of the client that spent most.
  PrivacyReport report() const;

 private:
  Input input_;
  BudgetLedger ledger_;
};

}  // namespace chorus::inline local_budget

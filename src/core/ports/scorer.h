#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/client_id.h"
#include "core/ports/message.h"
#include "core/ports/variant.h"

namespace chorus::inline ports {

using Scores = std::map<std::string, double>;

/// The scores of some clients together: a tenth of them by activity, one of them, ...
struct ClientGroupScores {
  std::string name;
  std::size_t clients = 0;
  Scores scores;
};

/// Scores a model on the server's own test examples, or from the totals that clients report of theirs.
class Scorer {
 public:
  virtual ~Scorer() = default;

  /// Scores of a variant of the model [P] on the server's test examples.
  virtual Scores score(const at::Tensor& model, const Variant& variant) = 0;

  /// Why a client's reply to an evaluation cannot be used; empty: it can.
  virtual std::string fault_of(const Message& /*reply*/) const { return {}; }

  /// Replies of clients to an evaluation (core/ports/workbench.h); empty messages are skipped. DataError for an invalid
  /// one.
  using ClientTotals = std::vector<std::pair<ClientId, Message>>;
  virtual Scores pooled(const ClientTotals& totals) const = 0;
  virtual std::vector<ClientGroupScores> deciles(const ClientTotals& totals) const = 0;
  /// Each client alone, under its name; empty: not told.
  virtual std::vector<ClientGroupScores> by_client(const ClientTotals& /*totals*/) const { return {}; }
};

}  // namespace chorus::inline ports

#pragma once

#include <string>
#include <vector>

#include "core/ports/procedure.h"

namespace chorus::inline federated {

/// The procedure that defines a client's own model for a method. For a server it scores the models on each client's own
/// test examples, or with the number "shared" = 1 on the shared ones; only the scores leave the client. `chorus model
/// personal` calls `models` directly, where the client's data is.
///
///     class DittoEvaluate : public OwnModels { at::Tensor models(request, bench) const override { ... } };
///
/// A client that has never trained (cold start) gets the model that the method gives a newcomer.
class OwnModels : public Procedure {
 public:
  /// [C, P].
  virtual at::Tensor models(const Request& request, Workbench& bench) const = 0;
  std::vector<Answer> run(const Request& request, Workbench& bench) const final;
};

/// A tensor that each client keeps in its state, as rows; clients without one have the row of `fallback`, [n] for all
/// or [C, n], and its device. DataError for another size: the state belongs to another network.
struct KeptRows {
  at::Tensor values;       ///< [C, n], owned
  std::vector<bool> kept;  ///< which clients have one
  bool all() const;        ///< every client has one
};
KeptRows kept_rows(Workbench& bench, const std::string& name, const at::Tensor& fallback);

/// Row i of the first if the client keeps one, else of the second.
at::Tensor kept_or(const KeptRows& rows, const at::Tensor& others);

}  // namespace chorus::inline federated

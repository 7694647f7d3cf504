#pragma once

#include <string>
#include <vector>

#include "core/ports/procedure.h"

namespace chorus::inline federated {

/// The procedure of a method that gives every client a model of its own: what that model is. Asked by a server, it
/// scores the models on each client's own test examples, or with the number "shared" = 1 on those everybody shares;
/// only the scores leave the client. `chorus model personal` calls `models` directly, beside the client's data.
///
///     class DittoEvaluate : public OwnModels { at::Tensor models(request, bench) const override { ... } };
///
/// A client that has never trained (cold start) gets what the method would give a newcomer.
class OwnModels : public Procedure {
 public:
  /// [C, P].
  virtual at::Tensor models(const Request& request, Workbench& bench) const = 0;
  std::vector<Answer> run(const Request& request, Workbench& bench) const final;
};

/// A tensor that each client keeps in its state, as rows; those that keep none have the row of `fallback`, [n] for all
/// or [C, n], and its device. DataError for one of another size: a state of another network.
struct KeptRows {
  at::Tensor values;       ///< [C, n], memory of its own
  std::vector<bool> kept;  ///< which clients have one
  bool all() const;        ///< have one
};
KeptRows kept_rows(Workbench& bench, const std::string& name, const at::Tensor& fallback);

/// Row i of the first where the client keeps one, of the second elsewhere.
at::Tensor kept_or(const KeptRows& rows, const at::Tensor& others);

}  // namespace chorus::inline federated

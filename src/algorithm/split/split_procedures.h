#pragma once

#include "core/ports/procedure.h"

namespace chorus::inline split {

/// The client half of split learning (split_learning.h), three procedures of one session:
///
///   split/start    numbers layers, labels_stay, noise, decorrelate; "model": the client's part of the network. Runs
///   the
///                  first batch up to the cut
///   split/answer   U-shaped only; own message: "hidden". Computes the loss and replies with its gradient
///   split/step     own message: "gradient". Makes a step, and runs the next batch; after the last one it replies with
///                  "update" and what is needed for an average
class SplitStart : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};
class SplitAnswer : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};
class SplitStep : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

}  // namespace chorus::inline split

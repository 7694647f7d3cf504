#pragma once

#include <string>
#include <vector>

#include "core/config/registry.h"
#include "core/ports/federation.h"
#include "core/ports/workbench.h"

namespace chorus::inline ports {

/// One client's answer: what it sends back, or why it cannot.
struct Answer {
  Message body = {};
  std::string failure = {};
  std::string finite = {};  ///< name of a tensor in the body that is known to be finite
};

/// The client half of an algorithm, by name. All its input comes with the request. Stateless and thread-safe: anything
/// to remember goes into the client's state.
///
///     class Train : public Procedure { ... run(...) { TrainResult r = bench.train(request.body.vector("model", P)); }
///     }; const ProcedureRegistration<Train> kTrain{"fedavg/train"};
class Procedure {
 public:
  static constexpr std::string_view kKind = "procedure";
  virtual ~Procedure() = default;
  /// One answer for each of bench.clients(), in their order.
  virtual std::vector<Answer> run(const Request& request, Workbench& bench) const = 0;
};

using Procedures = Registry<Procedure>;

template <typename P>
class ProcedureRegistration : Registration<Procedures> {
 public:
  ProcedureRegistration(std::string name, std::string summary)
      : Registration<Procedures>(std::move(name), std::move(summary), [] { return std::make_unique<P>(); }) {}
};

}  // namespace chorus::inline ports

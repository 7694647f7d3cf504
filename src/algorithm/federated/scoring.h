#pragma once

#include "core/ports/federation.h"
#include "core/ports/procedure.h"

namespace chorus::inline federated {

/// Procedures that only measure. Each takes the "model" and replies with the totals of the task's metric
/// (core/ports/workbench.h).
///
///   evaluate         the given model on the client's own test examples
///   local/evaluate   the client's own model (local-only training), on its own test examples, or with "shared" = 1 on
///                    the shared ones
///   loss             the given model's mean loss on the client's training data, as the number "loss"
Request evaluate_request(const at::Tensor& model, std::uint64_t round);
Request local_evaluate_request(const at::Tensor& model, std::uint64_t round, bool shared);
Request loss_request(const at::Tensor& model, std::uint64_t round);

}  // namespace chorus::inline federated

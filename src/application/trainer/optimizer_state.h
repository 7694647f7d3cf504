#pragma once

#include <span>

#include "application/optim/optimizer.h"
#include "core/ports/workbench.h"

namespace chorus::inline trainer {

/// Optimizers of clients that continue from their last round: read from, and written to, the clients' states. Client c
/// of the optimizer has states[c].
void restore_optimizer(Optimizer& optimizer, std::span<ClientState* const> states);
void store_optimizer(Optimizer& optimizer, std::span<ClientState* const> states);

}  // namespace chorus::inline trainer

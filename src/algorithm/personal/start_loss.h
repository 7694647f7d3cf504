#pragma once

#include "core/ports/federation.h"

namespace chorus::inline personal {

/// The loss of the client's data under the model that it was sent, from a reply of the procedure "fair/train", which
/// trains as "train" does and tells it: at least 1e-10. DataError when it is not a loss.
double start_loss(const Reply& reply);

}  // namespace chorus::inline personal

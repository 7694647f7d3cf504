#pragma once

#include "core/ports/federation.h"

namespace chorus::inline personal {

/// The loss of the client's data under the model that it received, at least 1e-10. It comes from a reply of the
/// procedure "fair/train", which trains like "train" and reports this loss. DataError when it is not a valid loss.
double start_loss(const Reply& reply);

}  // namespace chorus::inline personal

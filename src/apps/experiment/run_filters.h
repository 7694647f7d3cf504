#pragma once

#include "algorithm/compression/filter_end.h"
#include "apps/experiment/experiment.h"

namespace chorus::inline experiment {

/// What both sides of a run's filters know: the configuration, the layout of what trains, and the network as it begins.
/// Borrows the experiment.
FilterEndInput filter_input(const Experiment& experiment);

}  // namespace chorus::inline experiment

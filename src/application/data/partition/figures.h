#pragma once

#include <span>
#include <string>
#include <vector>

#include "application/data/partition/partition.h"
#include "application/data/partition/population.h"
#include "application/data/partition/statistics.h"

namespace chorus::inline partition {

/// The partition figures of Lin et al. 2022 as self-contained SVG files: Fig. 2 (Jensen-Shannon matrices), Fig. 3
/// (label mixes), Fig. 8 (densities of client sizes), and the label counts of each client. Several partitions of the
/// same data are drawn side by side.
struct FigurePanel {
  std::string title;  ///< such as "α = 1"
  const Partition* partition = nullptr;
};

/// Fig. 2: one matrix per panel, coloured by divergence from 0 to 1 bit. At most `most` clients each, evenly spread.
std::string js_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most = 100);

/// Fig. 3: clients by labels, coloured by a label's share of the client's training examples.
std::string label_mix_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most = 100);

/// Training examples of every client, stacked by label, the largest labels first in the legend.
std::string label_count_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most = 100);

/// Fig. 8: density of the number of training examples per client (Gaussian kernel, Silverman's width), one curve per
/// panel, with a tick for every client below.
std::string size_figure(std::span<const FigurePanel> panels);

/// "α = 1" for a partition with an alpha, "β = 5", both, or the group's name.
std::string panel_title(const Partition& partition);

}  // namespace chorus::inline partition

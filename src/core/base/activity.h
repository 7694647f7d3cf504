#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chorus {

/// The clients with data (size > 0) from least to most active, equals by ascending number: the one order in which
/// deciles are cut and the heavy and light clients are found (paper 002 ranks devices by their number of utterances).
std::vector<std::uint32_t> by_activity(std::span<const double> sizes);

/// Where group g of `groups` begins in that order: at n g / groups, so sizes differ by one at most. Group g is empty
/// when group_begin(n, g, groups) == group_begin(n, g + 1, groups).
constexpr std::size_t group_begin(std::size_t n, std::size_t g, std::size_t groups) { return n * g / groups; }

}  // namespace chorus

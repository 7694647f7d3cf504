#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chorus::inline base {

/// The clients with data (size > 0) from least to most active, ties by ascending id. Deciles and the heavy and light
/// clients are cut in this order (Dupuy et al. 2022 rank devices by their number of utterances).
std::vector<std::uint32_t> by_activity(std::span<const double> sizes);

/// The first index of group g of `groups` in that order: n g / groups, so sizes differ by at most one. Group g is empty
/// when group_begin(n, g, groups) == group_begin(n, g + 1, groups).
constexpr std::size_t group_begin(std::size_t n, std::size_t g, std::size_t groups) { return n * g / groups; }

}  // namespace chorus::inline base

#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace chorus::inline remote {

/// Divides a list into consecutive parts of about equal work. Returns where each part ends.
///
/// A part ends at a multiple of `block` where that changes its work by no more than a twentieth of a part's: blocks
/// that are not cut can be summed where they are (algorithm/federated/rank_sums.h).
std::vector<std::size_t> even_parts(std::span<const double> work, std::size_t parts, std::size_t block);

}  // namespace chorus::inline remote

#include "infrastructure/remote/even_parts.h"

#include <algorithm>
#include <cmath>

namespace chorus::inline remote {

std::vector<std::size_t> even_parts(std::span<const double> work, std::size_t parts, std::size_t block) {
  std::vector<double> before{0};  // work of the items before each
  for (const double one : work) before.push_back(before.back() + one);
  const double share = before.back() / static_cast<double>(parts);
  std::vector<std::size_t> ends;
  std::size_t begin = 0;
  for (std::size_t part = 1; part < parts; ++part) {
    const double wanted = share * static_cast<double>(part);
    const auto off = [&](std::size_t end) { return std::abs(before[end] - wanted); };
    std::size_t best = begin;
    for (std::size_t end = begin; end <= work.size(); ++end) {
      if (off(end) < off(best)) best = end;
    }
    std::size_t whole = best;
    for (const std::size_t end : {best / block * block, (best + block - 1) / block * block}) {
      if (end < begin || end > work.size() || off(end) > off(best) + share / 20) continue;
      if (whole % block != 0 || off(end) < off(whole)) whole = end;
    }
    begin = whole;
    ends.push_back(begin);
  }
  ends.push_back(work.size());
  return ends;
}

}  // namespace chorus::inline remote

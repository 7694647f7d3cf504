#include "infrastructure/tracking/report/columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace chorus::inline report {

void Columns::add(const std::map<std::string, double>& row) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : row) {
    auto found = values_.find(name);
    if (found == values_.end()) {
      if (values_.size() >= kMostColumns) continue;
      found = values_.emplace(name, std::vector<double>(rows_, kNone)).first;
    }
    found->second.push_back(value);
  }
  ++rows_;
  for (auto& [name, column] : values_) column.resize(rows_, kNone);
}

std::vector<std::size_t> Columns::thinned(const std::string& column, std::size_t most) const {
  std::vector<std::size_t> kept;
  if (rows_ <= std::max<std::size_t>(most, 4)) {
    kept.resize(rows_);
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    return kept;
  }
  const std::size_t stretches = std::max<std::size_t>(most / 2, 2) - 1;
  const auto found = values_.find(column);
  kept.push_back(0);
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = 1 + (rows_ - 2) * s / stretches, end = 1 + (rows_ - 2) * (s + 1) / stretches;
    if (begin == end) continue;
    std::size_t low = begin, high = begin;
    if (found != values_.end()) {
      const std::vector<double>& values = found->second;
      for (std::size_t i = begin; i < end; ++i) {
        if (!(values[low] <= values[i])) low = std::isnan(values[i]) ? low : i;
        if (!(values[high] >= values[i])) high = std::isnan(values[i]) ? high : i;
      }
    }
    kept.push_back(std::min(low, high));
    if (low != high) kept.push_back(std::max(low, high));
  }
  kept.push_back(rows_ - 1);
  return kept;
}

}  // namespace chorus::inline report

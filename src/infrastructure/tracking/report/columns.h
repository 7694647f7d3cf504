#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace chorus::inline report {

/// Numbers by row and name, for curves: all columns have `rows` values, NaN where a row has none. Whoever writes a run
/// folder chooses the names, so only the first `kMostColumns` are kept.
///
///     Columns columns;
///     columns.add({{"round", 1}, {"loss", 0.7}});
class Columns {
 public:
  static constexpr std::size_t kMostColumns = 200;

  void add(const std::map<std::string, double>& row);
  std::size_t rows() const { return rows_; }
  const std::map<std::string, std::vector<double>>& values() const { return values_; }

  /// The rows to show when at most `most` are wanted, ascending: the first, the last, and of each stretch between them
  /// those with the lowest and the highest value of `column`, so that no peak is lost.
  std::vector<std::size_t> thinned(const std::string& column, std::size_t most) const;

 private:
  std::size_t rows_ = 0;
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace chorus::inline report

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace chorus::inline readers {

/// Columns of a delimited file whose header says nothing that Chorus knows, guessed from their values: the text is the
/// column with the longest values of several words, the label the other one with the fewest distinct values, the client
/// one that repeats but has more values than the label.
struct GuessedColumns {
  std::string text, label;  ///< names in the header
  std::optional<std::string> client{};
  std::size_t labels = 0, clients = 0, rows = 0;  ///< distinct values among the rows looked at
};

/// nullopt when the first 2,000 rows do not look like such a file. A person must check the result.
std::optional<GuessedColumns> guess_columns(const std::filesystem::path& path);

}  // namespace chorus::inline readers

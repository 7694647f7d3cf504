#pragma once

#include <array>
#include <string>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus::inline readers {

enum class Role { kId, kText, kSecond, kLabel, kScore, kWords, kTags, kAnswers, kClient, kSource, kTime };
inline constexpr std::size_t kRoles = 11;

/// The role of each column of a file, and the formulation that follows from them.
struct ColumnRoles {
  Formulation formulation = Formulation::kLanguageModel;
  std::array<std::vector<std::string>, kRoles> names;  ///< several are joined by a space; empty: absent

  const std::vector<std::string>& operator[](Role role) const { return names[static_cast<std::size_t>(role)]; }
  bool has(Role role) const { return !(*this)[role].empty(); }
};

/// Finds the roles among the names `available`: configured names first (DataError with the existing columns when one is
/// missing), then usual ones (text, sentence1, label, ...; case-insensitive). Without a configured formulation: words
/// and tags, then context and question, then two texts with a score or label, then one text with a label, then source
/// and target, else language model. `where` begins the messages.
ColumnRoles find_roles(const ReaderOptions& options, const std::vector<std::string>& available,
                       const std::string& where);

/// Whether the name is a usual name of any role: distinguishes a header from data.
bool is_usual_name(const std::string& name);

}  // namespace chorus::inline readers
